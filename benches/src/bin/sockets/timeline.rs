//! Plots of round trips over time.

use std::{fs, path::Path};

use anyhow::Context as _;
use tokio_wheel_benches::{
    late::Late,
    machine,
    plot::{Axis, Chart, Curve},
    stats::{median, number},
};

use crate::{clients::Trip, net::MS, timer::Timer};

/// The round trips of one run.
pub(crate) struct Trips {
    pub(crate) timer: Timer,
    pub(crate) window: Late,
    /// For each millisecond, the longest round trip scheduled in it, in milliseconds. 0 if none was scheduled.
    pub(crate) timeline: Vec<f64>,
}

/// Returns when each round trip was due, and how long it took. Fails if a request got no answer.
pub(crate) fn answered(trips: &[Trip]) -> anyhow::Result<Vec<(u64, u64)>> {
    let trips = trips.iter().map(|trip| Some((trip.due, trip.answer?.0)));
    let trips: Option<_> = trips.collect();
    trips.context("a request got no answer within 20 s")
}

/// Returns the timeline of so many nanoseconds that begins so long before each start.
pub(crate) fn timeline(
    trips: &[(u64, u64)],
    starts: impl Iterator<Item = u64>,
    (before, length): (u64, u64),
) -> Vec<f64> {
    let mut timeline = vec![0.0_f64; (length / MS) as usize];
    for start in starts {
        for &(due, time) in trips {
            let place = (due + before).checked_sub(start);
            let longest = place.and_then(|place| timeline.get_mut((place / MS) as usize));
            if let Some(longest) = longest {
                *longest = longest.max(time as f64 / MS as f64);
            }
        }
    }
    timeline
}

pub(crate) fn of(all: &[Trips], timer: Timer) -> impl Iterator<Item = &Trips> {
    all.iter().filter(move |trips| trips.timer == timer)
}

/// Says how long clients wait with tokio's timer and with this crate: the median over the rounds of a quantile.
pub(crate) fn waits(all: &[Trips], quantile: f64) -> String {
    let [tokio, wheel] = [Timer::Tokio, Timer::Wheel].map(|timer| {
        let ms = median(of(all, timer).map(|trips| trips.window.ms(quantile)));
        // The pages round the number that the table prints.
        let printed: f64 = number(ms).replace(',', "").parse().expect("it is a number");
        format!("{printed:.0$} ms", usize::from(printed < 9.95))
    });
    format!("{tokio} on tokio::time, {wheel} here")
}

pub(crate) struct Plot<'a> {
    pub(crate) caption: &'a str,
    pub(crate) note: &'a str,
    pub(crate) source: &'a str,
    pub(crate) x: &'a str,
    /// How long before the event of the plot the timelines begin, in nanoseconds.
    pub(crate) before: u64,
}

impl Plot<'_> {
    /// Draws the longest round trip of each millisecond, as the median of the rounds.
    pub(crate) fn draw(&self, all: &[Trips], file: &Path) -> anyhow::Result<()> {
        let folder = file.parent().expect("it is in a folder");
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let before = self.before as f64 / MS as f64;
        let length = all[0].timeline.len();
        let point = |timer, i| {
            let longest = median(of(all, timer).map(|trips| trips.timeline[i]));
            (longest > 0.0).then_some((i as f64 - before, longest))
        };
        let curves = Timer::all().iter().rev().map(|&timer| Curve {
            name: match timer {
                Timer::None => "no timeouts",
                _ => timer.name(),
            }
            .to_owned(),
            faint: false,
            points: (0..length).filter_map(|i| point(timer, i)).collect(),
        });
        let curves: Vec<_> = curves.collect();
        let step = if length > 500 { 100.0 } else { 50.0 };
        let marks = (0..).map(|mark| f64::from(mark) * step - before);
        let marks = marks.take_while(|&mark| mark <= length as f64 - before);
        Chart {
            caption: self.caption,
            note: self.note,
            source: &format!(
                "{}, medians of {} rounds on {}",
                self.source,
                of(all, Timer::Wheel).count(),
                machine::name(),
            ),
            x: Axis {
                title: self.x,
                is_logarithmic: false,
                marks: marks.map(|ms| (ms, ms.to_string())).collect(),
            },
            y: "slowest round trip, ms (logarithmic)",
            curves: &curves,
        }
        .draw(file)
    }
}

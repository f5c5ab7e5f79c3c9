//! Draws plots of the measured figures. Figures that are missing are not drawn.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use indicatif::HumanCount;
use tokio_wheel_benches::{
    cell::name,
    peer::{Peer as _, TokioAlt},
    plot::{Axis, Chart, Curve, title},
};

use crate::{
    job::{CROWDS, beside},
    report::{Measured, OURS, TOKIO},
};

/// The curves: a timer, whether an earlier timer is pending (only `tokio::time` differs), and what to add to its name.
const CURVES: [(&str, bool, &str); 7] = [
    (OURS, true, ""),
    (TOKIO, true, ""),
    (TOKIO, false, ", none earlier"),
    (TokioAlt::NAME, true, ""),
    ("pingora", true, ""),
    ("futures_timer", true, ""),
    ("async_io", true, ""),
];

const STATES: &str =
    "Lower is better. An earlier timer is pending, as on a server, except in the pale curve.";

pub(crate) fn draw(measured: &Measured, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Plot {
        caption: "Setting and canceling a sleep, on each of two threads, by how many others are pending",
        x: "other pending sleeps (logarithmic)",
        places: &CROWDS,
        row: &|pending, armed| beside(2, armed, pending),
    }
    .draw(measured, &folder.join("cost-by-pending.svg"))?;
    Plot {
        caption: "Setting and canceling a sleep, on each of 1 to 8 threads at once",
        x: &format!("worker threads, on {} cores (logarithmic)", measured.cores),
        places: &[1, 2, 4, 8],
        row: &|workers, armed| format!("churn {}", name(workers as usize, armed)),
    }
    .draw(measured, &folder.join("cost-by-threads.svg"))
}

struct Plot<'a> {
    caption: &'a str,
    x: &'a str,
    places: &'a [u64],
    /// Names the row of a place, beside an earlier timer or not.
    row: &'a dyn Fn(u64, bool) -> String,
}

impl Plot<'_> {
    /// Draws the [`CURVES`] that have a point.
    fn draw(&self, measured: &Measured, path: &Path) -> Result<()> {
        // A logarithmic axis has no zero, so the plot shows zero pending sleeps at one.
        let x = |place: u64| place.max(1) as f64;
        let curves = CURVES.map(|(peer, armed, state)| {
            let point = |&place: &u64| {
                let series = measured.find(&(self.row)(place, armed), peer)?;
                Some((x(place), series.median()))
            };
            Curve {
                name: format!("{}{state}", title(peer)),
                faint: !armed,
                points: self.places.iter().filter_map(point).collect(),
            }
        });
        let mut curves = Vec::from(curves);
        curves.retain(|curve| !curve.points.is_empty());
        let marks = self.places.iter();
        let marks = marks.map(|&place| (x(place), HumanCount(place).to_string()));
        let (rounds, machine) = (measured.rounds, &measured.machine);
        Chart {
            caption: self.caption,
            note: STATES,
            source: &format!("compare --all, medians of {rounds} rounds on {machine}"),
            x: Axis {
                title: self.x,
                is_logarithmic: true,
                marks: marks.collect(),
            },
            y: "ns per sleep (logarithmic)",
            curves: &curves,
        }
        .draw(path)
    }
}

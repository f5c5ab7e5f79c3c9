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
    report::{Measured, OURS, Series, TOKIO},
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
    by_pending(measured, &folder.join("cost-by-pending.svg"))?;
    by_threads(measured, &folder.join("cost-by-threads.svg"))
}

fn by_pending(measured: &Measured, path: &Path) -> Result<()> {
    // A logarithmic axis has no zero, so the plot shows zero pending sleeps at one.
    let x = |pending: f64| pending.max(1.0);
    let curves = curves(measured, |series| {
        let places = [false, true].into_iter();
        let mut places = places.flat_map(|armed| CROWDS.map(|pending| (armed, pending)));
        let is_at = |&(armed, pending): &(bool, u64)| series.row.name == beside(2, armed, pending);
        let (armed, pending) = places.find(is_at)?;
        Some((armed, x(pending as f64), series.median()))
    });
    let marks = CROWDS.map(|pending| (x(pending as f64), HumanCount(pending).to_string()));
    let caption =
        "Setting and canceling a sleep, on each of two threads, by how many others are pending";
    let title = "other pending sleeps (logarithmic)";
    lines(path, caption, measured, title, marks.into(), &curves)
}

fn by_threads(measured: &Measured, path: &Path) -> Result<()> {
    let curves = curves(measured, |series| {
        let variant = series.row.name.strip_prefix("churn ")?;
        let places = [false, true].into_iter();
        let mut places = places.flat_map(|armed| [1, 2, 4, 8].map(|workers| (workers, armed)));
        let (workers, armed) = places.find(|&(workers, armed)| variant == name(workers, armed))?;
        Some((armed, workers as f64, series.median()))
    });
    let marks = [1, 2, 4, 8].map(|workers| (f64::from(workers), workers.to_string()));
    let caption = "Setting and canceling a sleep, on each of 1 to 8 threads at once";
    let title = format!("worker threads, on {} cores (logarithmic)", measured.cores);
    lines(path, caption, measured, &title, marks.into(), &curves)
}

fn lines(
    path: &Path,
    caption: &str,
    measured: &Measured,
    title: &str,
    marks: Vec<(f64, String)>,
    curves: &[Curve],
) -> Result<()> {
    Chart {
        caption,
        note: STATES,
        source: &format!(
            "compare --all, medians of {} rounds on {}",
            measured.rounds, measured.machine
        ),
        x: Axis {
            title,
            is_logarithmic: true,
            marks,
        },
        y: "ns per sleep (logarithmic)",
        curves,
    }
    .draw(path)
}

/// Returns the [`CURVES`] with a point. `point` returns whether a figure is armed, place and value.
fn curves(measured: &Measured, point: impl Fn(&Series) -> Option<(bool, f64, f64)>) -> Vec<Curve> {
    let curve = |(peer, armed, state): (&str, bool, &str)| {
        let series = measured.series.iter().filter(|one| one.peer == peer);
        let points = series.filter_map(&point).filter(|point| point.0 == armed);
        let mut points: Vec<_> = points.map(|(_, x, y)| (x, y)).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Curve {
            name: format!("{}{state}", title(peer)),
            faint: !armed,
            points,
        }
    };
    let mut curves: Vec<_> = CURVES.map(curve).into();
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

//! Draws plots of the measured figures. Figures that are missing are not drawn.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use indicatif::HumanCount;
use tokio_wheel_benches::{
    peer::{Peer as _, TokioAlt},
    plot::{Axis, Chart, Curve, title},
};

use crate::{
    job::pending_workload,
    report::{Measured, OURS, Section, Series, TOKIO},
};

/// The curves: a timer, whether it is armed, and what to add to its name. The state makes a
/// difference for `tokio::time` only.
const CURVES: [(&str, bool, &str); 7] = [
    (OURS, true, ""),
    (TOKIO, true, ", armed"),
    (TOKIO, false, ", unarmed"),
    (TokioAlt::NAME, true, ""),
    ("pingora", true, ""),
    ("futures_timer", true, ""),
    ("async_io", true, ""),
];

/// Explains what to see, and the states.
const STATES: &str =
    "Lower is better. armed: an earlier timer is pending, as on a server. unarmed: none is.";

/// Draws all plots into a folder.
pub(crate) fn draw(measured: &Measured, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    by_pending(measured, &folder.join("cost-by-pending.svg"))?;
    by_threads(measured, &folder.join("cost-by-threads.svg"))
}

fn by_pending(measured: &Measured, path: &Path) -> Result<()> {
    // A logarithmic axis has no zero, so the plot shows zero pending sleeps at one.
    let x = |pending: f64| pending.max(1.0);
    let workloads = [false, true].map(|armed| pending_workload(2, armed));
    let curves = curves(measured, Section::Pending, |series| {
        let state = (workloads.iter()).position(|name| *name == series.row.workload)?;
        let pending = series.row.variant.parse().ok()?;
        Some((state == 1, x(pending), series.median()))
    });
    let marks = [0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let marks = marks.map(|pending| (x(pending as f64), HumanCount(pending).to_string()));
    let caption = "Churn on each of two threads: flat if pending sleeps cost nothing";
    let title = "pending sleeps (logarithmic)";
    lines(path, caption, measured, title, marks.into(), &curves)
}

fn by_threads(measured: &Measured, path: &Path) -> Result<()> {
    let curves = curves(measured, Section::Operations, |series| {
        let armed = series.row.variant.strip_suffix(" armed");
        let threads = match armed.unwrap_or(&series.row.variant) {
            // One of the two workers of x1 is idle.
            variant if series.row.workload != "churn" || variant == "x1" => return None,
            "solo" => 1.0,
            variant => variant.strip_prefix('x')?.parse().ok()?,
        };
        (threads <= 8.0).then(|| (armed.is_some(), threads, series.median()))
    });
    let marks = [1.0, 2.0, 4.0, 8.0].map(|threads| (threads, threads.to_string()));
    let caption = "Churn on 1 to 8 workers: flat if more workers cost nothing";
    let title = format!("worker threads, on {} cores", measured.cores);
    lines(path, caption, measured, &title, marks.into(), &curves)
}

/// Draws the cost of churn over a logarithmic axis.
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
            "compare --all, medians of {} rounds on {}, {} cores",
            measured.rounds, measured.machine, measured.cores
        ),
        x: Axis {
            title,
            is_logarithmic: true,
            marks,
        },
        y: "ns per operation (logarithmic)",
        has_dots: true,
        curves,
    }
    .draw(path)
}

/// Returns the [`CURVES`] that have a point in a section. `point` returns whether a figure is armed,
/// its place and its value.
fn curves(
    measured: &Measured,
    section: Section,
    point: impl Fn(&Series) -> Option<(bool, f64, f64)>,
) -> Vec<Curve> {
    let curve = |(peer, armed, state): (&str, bool, &str)| {
        let series = measured.section(section).filter(|one| one.peer == peer);
        let points = series.filter_map(&point).filter(|point| point.0 == armed);
        let mut points: Vec<_> = points.map(|(_, x, y)| (x, y)).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Curve {
            name: format!("{}{state}", title(peer)),
            faint: !armed,
            ours: peer == OURS,
            points,
        }
    };
    let mut curves: Vec<_> = CURVES.map(curve).into();
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

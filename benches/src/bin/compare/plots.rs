//! The drawings, from nothing but what was measured. What was not measured is not drawn.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use indicatif::HumanCount;
use tokio_wheel_benches::{
    lateness::Scene,
    plot::{self, Axis, Chart, Curve, Mark, row},
};

use crate::{
    everything::IDLE,
    report::{Measured, OURS, Section, Series},
    requirements::WORST_X1,
    table::number,
};

/// What an operation costs, of those whose names the drawing shows.
const OPERATIONS: [(&str, &str, &str); 12] = [
    ("churn", "solo", "churn"),
    ("churn", "x2", "churn, two threads"),
    ("churn", "x2 armed", "churn, two, armed"),
    ("io", "solo", "io"),
    ("io", "x2", "io, two threads"),
    ("io", "x2 armed", "io, two, armed"),
    ("reset", "solo", "reset"),
    ("reset", "x2", "reset, two threads"),
    ("ready", "solo", "ready"),
    ("ready", "x2", "ready, two threads"),
    ("rpc", "x2", "rpc, two threads"),
    ("rpc_shared", "x2", "rpc, one server"),
];

/// Draws all of them into a folder.
pub(crate) fn draw(measured: &Measured, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    per_operation(measured, &folder.join("cost-per-operation.svg"))?;
    by_pending(measured, &folder.join("cost-by-pending.svg"))?;
    by_threads(measured, &folder.join("cost-by-threads.svg"))?;
    saturated(measured, &folder.join("lateness-saturated.svg"))?;
    memory(
        measured,
        ("memory", "Bytes per pending sleep, future and entry"),
        &folder.join("memory.svg"),
    )?;
    memory(
        measured,
        (
            "growth",
            "MB kept of 3,600,000 sleeps of an hour each, all of them dropped",
        ),
        &folder.join("growth.svg"),
    )?;
    for (scene, file) in [
        (Scene::Idle, "lateness-idle.svg"),
        (Scene::Busy, "lateness-busy.svg"),
    ] {
        let curves = measured
            .lateness
            .iter()
            .filter(|curve| curve.scene == scene);
        let curves: Vec<_> = curves.map(|curve| (curve.sleeper, &curve.late)).collect();
        plot::lateness(&folder.join(file), scene, &curves)?;
    }
    Ok(())
}

fn per_operation(measured: &Measured, path: &Path) -> Result<()> {
    let curves = curves(measured, Section::Operations, |series| {
        let name = (&*series.row.workload, &*series.row.variant);
        let i =
            (OPERATIONS.iter()).position(|&(workload, variant, _)| name == (workload, variant))?;
        Some((series.estimate().median, row(i)))
    });
    let xs = || {
        curves
            .iter()
            .flat_map(|curve| &curve.points)
            .map(|&(x, _)| x)
    };
    Chart {
        caption: "Cost per operation and thread",
        x: Axis::decades("ns", span(xs()), count),
        y: Axis::rows(&OPERATIONS.map(|(_, _, name)| name.to_owned())),
        mark: Mark::Dots,
        curves: &curves,
    }
    .draw(path)
}

fn by_pending(measured: &Measured, path: &Path) -> Result<()> {
    // A logarithmic axis has no zero: no pending sleep is drawn where one would be.
    let x = |pending: f64| pending.max(1.0);
    let curves = curves(measured, Section::Pending, |series| {
        let pending = series.row.variant.parse().ok()?;
        (series.row.workload == "churn x2 over").then(|| (x(pending), series.estimate().median))
    });
    let marks = [0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let marks = marks.map(|pending| (x(pending as f64), HumanCount(pending).to_string()));
    lines(
        path,
        "churn on each of two threads, beside pending sleeps",
        Axis::logarithmic("pending sleeps", (1.0, 1e7), marks.into()),
        ("ns", count),
        &curves,
    )
}

fn by_threads(measured: &Measured, path: &Path) -> Result<()> {
    let threads = |series: &Series| series.row.variant.strip_prefix('x')?.parse::<f64>().ok();
    let curves = curves(measured, Section::Threads, |series| {
        Some((threads(series)?, series.estimate().median))
    });
    let marks = [1.0, 2.0, 4.0, 8.0].map(|threads| (threads, threads.to_string()));
    lines(
        path,
        "churn, time of a core per operation",
        Axis::logarithmic(
            &format!("worker threads, on {} cores", measured.cores),
            (1.0, 8.0),
            marks.into(),
        ),
        ("ns", count),
        &curves,
    )
}

fn count(value: f64) -> String {
    HumanCount(value as u64).to_string()
}

fn saturated(measured: &Measured, path: &Path) -> Result<()> {
    // No idle timer is drawn a decade before a thousand.
    let x = |idle: f64| idle.max(100.0);
    let curves = curves(measured, Section::Saturated, |series| {
        let idle = series.row.variant.parse().ok()?;
        (series.row.workload == WORST_X1).then(|| (x(idle), series.estimate().median))
    });
    let marks = IDLE.map(|idle| (x(idle as f64), HumanCount(idle).to_string()));
    lines(
        path,
        "Worst lateness of a 10 ms sleep, one worker, 50 tasks always ready",
        Axis::logarithmic("idle timers", (100.0, 1e6), marks.into()),
        ("ms", millis),
        &curves,
    )
}

fn millis(value: f64) -> String {
    match value {
        value if value < 1.0 => value.to_string(),
        value => count(value),
    }
}

/// Curves over a logarithmic axis, whose unit names its marks.
fn lines(
    path: &Path,
    caption: &str,
    x: Axis,
    (unit, name): (&str, fn(f64) -> String),
    curves: &[Curve],
) -> Result<()> {
    let ys = curves
        .iter()
        .flat_map(|curve| &curve.points)
        .map(|&(_, y)| y);
    Chart {
        caption,
        x,
        y: Axis::decades(unit, span(ys), name),
        mark: Mark::DottedLine,
        curves,
    }
    .draw(path)
}

fn memory(measured: &Measured, (workload, caption): (&str, &str), path: &Path) -> Result<()> {
    let mut names = Vec::new();
    let curves = curves(measured, Section::Memory, |series| {
        (series.row.workload == workload).then(|| {
            names.push(series.peer.clone());
            (series.estimate().median, row(names.len() - 1))
        })
    });
    let xs = || {
        curves
            .iter()
            .flat_map(|curve| &curve.points)
            .map(|&(x, _)| x)
    };
    let names: Vec<_> = (names.iter().zip(xs()))
        .map(|(name, x)| format!("{name}: {}", number(x)))
        .collect();
    let (_, most) = span(xs());
    Chart {
        caption,
        x: Axis::linear("", (0.0, most * 1.05), Vec::new()),
        y: Axis::rows(&names),
        mark: Mark::Bars,
        curves: &curves,
    }
    .draw(path)
}

/// A curve for each timer that has a point in a section.
fn curves(
    measured: &Measured,
    section: Section,
    mut point: impl FnMut(&Series) -> Option<(f64, f64)>,
) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for series in measured.section(section) {
        let Some(point) = point(series) else {
            continue;
        };
        match curves.iter_mut().find(|curve| curve.name == series.peer) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve {
                name: series.peer.clone(),
                ours: series.peer == OURS,
                points: vec![point],
            }),
        }
    }
    curves
}

fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

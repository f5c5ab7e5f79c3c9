//! Draws plots of the measured figures. Figures that are missing are not drawn.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use indicatif::HumanCount;
use tokio_wheel_benches::{
    lateness::Scene,
    plot::{self, Axis, Chart, Curve, Mark, row, title},
    stats::number,
};

use crate::{
    job::pending_workload,
    report::{Measured, OURS, Section, Series, TOKIO},
};

/// The operations to draw: the workload, its armed variants, its unarmed variant, and its name in
/// the plot. The variant `x1` of one thread is armed too.
const OPERATIONS: [(&str, &[&str], &str, &str); 10] = [
    ("churn", &["solo armed", "x1"], "solo", "churn, one thread"),
    ("churn", &["x2 armed"], "x2", "churn, two threads"),
    ("io", &["solo armed", "x1"], "solo", "io, one thread"),
    ("io", &["x2 armed"], "x2", "io, two threads"),
    ("ready", &["solo armed", "x1"], "solo", "ready, one thread"),
    ("ready", &["x2 armed"], "x2", "ready, two threads"),
    ("reset", &["solo armed", "x1"], "solo", "reset, one thread"),
    ("reset", &["x2 armed"], "x2", "reset, two threads"),
    ("rpc", &["solo armed"], "solo", "rpc, one thread"),
    ("rpc", &["x2 armed"], "x2", "rpc, two threads"),
];

/// Explains the states.
const STATES: &str =
    "armed: an earlier timer is pending, the normal state of a server. unarmed: none is.";

/// Draws all plots into a folder.
pub(crate) fn draw(measured: &Measured, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    per_operation(measured, &folder.join("cost-per-operation.svg"))?;
    by_pending(measured, &folder.join("cost-by-pending.svg"))?;
    by_threads(measured, &folder.join("cost-by-threads.svg"))?;
    let title = "Memory per pending sleep, in bytes: future and entry";
    memory(measured, "memory", title, &folder.join("memory.svg"))?;
    let title = "MB kept of 3,600,000 sleeps of an hour each, all of them dropped";
    memory(measured, "growth", title, &folder.join("growth.svg"))?;
    for (scene, file) in [
        (Scene::Idle, "lateness-idle.svg"),
        (Scene::Busy, "lateness-busy.svg"),
    ] {
        let curves = measured
            .lateness
            .iter()
            .filter(|curve| curve.scene == scene);
        let curves: Vec<_> = curves.map(|curve| (curve.peer, &curve.late)).collect();
        plot::lateness(&folder.join(file), scene, &curves)?;
    }
    Ok(())
}

fn per_operation(measured: &Measured, path: &Path) -> Result<()> {
    let is_measured = |workload, variant: &str| {
        let figure = measured.find((Section::Operations, workload, variant), OURS);
        figure.is_some()
    };
    let operations: Vec<_> = (OPERATIONS.iter())
        .filter(|(workload, armed, unarmed, _)| {
            let mut variants = armed.iter().chain([unarmed]);
            variants.any(|variant| is_measured(workload, variant))
        })
        .collect();
    let mut curves = curves(measured, Section::Operations, |series| {
        let (workload, variant) = (&*series.row.workload, &*series.row.variant);
        let place = operations.iter().position(|(known, armed, unarmed, _)| {
            workload == *known && (armed.contains(&variant) || variant == *unarmed)
        })?;
        let is_armed = operations[place].1.contains(&variant);
        Some((is_armed, row(place), series.median()))
    });
    // The first operation is drawn at the top.
    for (y, x) in curves.iter_mut().flat_map(|curve| &mut curve.points) {
        std::mem::swap(y, x);
    }
    let xs = (curves.iter()).flat_map(|curve| curve.points.iter().map(|&(x, _)| x));
    let names: Vec<_> = (operations.iter().map(|(.., name)| (*name).to_owned())).collect();
    Chart {
        caption: "Cost per operation and thread",
        note: &format!("{STATES} no timer: the workload alone."),
        x: Axis::decades("ns per operation (logarithmic)", span(xs), count),
        y: Axis::rows(&names),
        mark: Mark::Dots,
        curves: &curves,
    }
    .draw(path)
}

fn by_pending(measured: &Measured, path: &Path) -> Result<()> {
    // A logarithmic axis has no zero, so the plot shows zero pending sleeps at one.
    let x = |pending: f64| pending.max(1.0);
    let workloads = [false, true].map(|armed| pending_workload(2, armed));
    let curves = curves(measured, Section::Pending, |series| {
        let state = workloads
            .iter()
            .position(|name| *name == series.row.workload)?;
        let pending = series.row.variant.parse().ok()?;
        Some((state == 1, x(pending), series.median()))
    });
    let marks = [0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let marks = marks.map(|pending| (x(pending as f64), HumanCount(pending).to_string()));
    lines(
        path,
        "Churn on each of two threads, beside pending sleeps",
        Axis::logarithmic("pending sleeps (logarithmic)", (1.0, 1e7), marks.into()),
        &curves,
    )
}

fn by_threads(measured: &Measured, path: &Path) -> Result<()> {
    let curves = curves(measured, Section::Operations, |series| {
        let variant = series.row.variant.strip_suffix(" armed");
        let threads = match variant.unwrap_or(&series.row.variant) {
            _ if series.row.workload != "churn" => return None,
            "solo" => 1.0,
            // It has two workers, of which one is idle.
            "x1" => return None,
            threads => threads
                .strip_prefix('x')?
                .parse()
                .ok()
                .filter(|&n| n <= 8.0)?,
        };
        Some((variant.is_some(), threads, series.median()))
    });
    let marks = [1.0, 2.0, 4.0, 8.0].map(|threads| (threads, threads.to_string()));
    lines(
        path,
        "Churn: time of a core per operation, by threads",
        Axis::logarithmic(
            &format!("worker threads, on {} cores", measured.cores),
            (1.0, 8.0),
            marks.into(),
        ),
        &curves,
    )
}

fn count(value: f64) -> String {
    HumanCount(value as u64).to_string()
}

/// Draws the cost of churn over a logarithmic axis.
fn lines(path: &Path, caption: &str, x: Axis, curves: &[Curve]) -> Result<()> {
    let ys = (curves.iter()).flat_map(|curve| curve.points.iter().map(|&(_, y)| y));
    Chart {
        caption,
        note: STATES,
        x,
        y: Axis::decades("ns per operation (logarithmic)", span(ys), count),
        mark: Mark::DottedLine,
        curves,
    }
    .draw(path)
}

/// Draws one row of the memory as bars.
fn memory(measured: &Measured, workload: &str, caption: &str, path: &Path) -> Result<()> {
    let series = measured.section(Section::Memory);
    let bars = series.filter(|series| series.row.workload == workload);
    let bars: Vec<_> = bars
        .map(|series| (&*series.peer, series.median()))
        .collect();
    let curves: Vec<_> = (bars.iter().enumerate())
        .map(|(i, &(timer, value))| Curve {
            name: timer.to_owned(),
            faint: false,
            ours: timer == OURS,
            points: vec![(value, row(i))],
        })
        .collect();
    let names: Vec<_> = (bars.iter())
        .map(|&(timer, value)| format!("{}: {}", title(timer), number(value)))
        .collect();
    let (_, most) = span(bars.iter().map(|&(_, value)| value));
    Chart {
        caption,
        note: "Less is better.",
        x: Axis::linear("", (0.0, most * 1.05), Vec::new()),
        y: Axis::rows(&names),
        mark: Mark::Bars,
        curves: &curves,
    }
    .draw(path)
}

/// Returns a curve for each timer that has a point in a section. `point` returns whether a figure
/// is armed, its place and its value. `tokio::time` has a curve for each state. The state makes no
/// difference to other timers. Their curves show the first figure of a place, and prefer an armed
/// figure.
fn curves(
    measured: &Measured,
    section: Section,
    point: impl Fn(&Series) -> Option<(bool, f64, f64)>,
) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for of_armed in [true, false] {
        for series in measured.section(section) {
            let Some((is_armed, place, value)) = point(series) else {
                continue;
            };
            if is_armed != of_armed {
                continue;
            }
            let is_tokio = series.peer == TOKIO;
            let state = match (is_tokio, is_armed) {
                (false, _) => "",
                (true, true) => ", armed",
                (true, false) => ", unarmed",
            };
            let name = format!("{}{state}", title(&series.peer));
            let known = curves.iter().position(|curve| curve.name == name);
            let curve = known.unwrap_or_else(|| {
                curves.push(Curve {
                    name,
                    faint: is_tokio && !is_armed,
                    ours: series.peer == OURS,
                    points: Vec::new(),
                });
                curves.len() - 1
            });
            let points = &mut curves[curve].points;
            if points.iter().all(|&(known, _)| known != place) {
                points.push((place, value));
            }
        }
    }
    // Armed `tokio::time` comes first, and unarmed `tokio::time` follows it.
    curves.sort_by_key(|curve| {
        let order = [OURS, "tokio::time, armed", "tokio::time, unarmed"];
        let place = order.iter().position(|name| *name == curve.name);
        place.unwrap_or(order.len())
    });
    for curve in &mut curves {
        curve
            .points
            .sort_by(|(one, _), (other, _)| one.total_cmp(other));
    }
    curves
}

fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

//! Draws round trips over time, before and during the storm.

use std::{fs, path::Path};

use anyhow::Context as _;
use tokio_wheel_benches::{
    plot::{Axis, Chart, Curve, Mark},
    table::median,
};

use crate::{
    storm::report::{Report, Run, Storms},
    summary::{Series, ms},
    timer::Timer,
};

/// Draws a file for each scene.
pub(crate) fn draw(report: &Report, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for storms in &report.scenes {
        let file = folder.join(format!("storm-{}.svg", storms.scene.name()));
        draw_scene(report, storms, &file)?;
    }
    Ok(())
}

fn draw_scene(report: &Report, storms: &Storms, path: &Path) -> anyhow::Result<()> {
    let series = |timer| {
        storms
            .series
            .iter()
            .find(move |series| series.timer == timer)
    };
    let curves: Vec<_> = [Timer::Wheel, Timer::Tokio, Timer::None]
        .into_iter()
        .filter_map(series)
        .map(|series| Curve {
            name: series.timer.name().to_owned(),
            ours: series.timer == Timer::Wheel,
            faint: false,
            points: points(series, report.timeline_before_ms),
        })
        .collect();
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let low = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    let end = ms(storms.scene.window());
    let marks = (-1..=12).map(|hundred| f64::from(hundred) * 100.0);
    let marks = marks.filter(|&mark| mark <= end && (end < 800.0 || mark % 200.0 == 0.0));
    Chart {
        caption: &storms.caption(),
        note: "A lower curve is better. A gap means that no round trip began then.",
        x: Axis::linear(
            "ms after the storm begins, when a round trip was scheduled",
            (-report.timeline_before_ms, end),
            marks.map(|ms| (ms, format!("{ms}"))).collect(),
        ),
        y: Axis::decades("longest round trip of each ms, in ms", (low, high), |ms| {
            format!("{ms}")
        }),
        mark: Mark::Line,
        curves: &curves,
    }
    .draw(path)
}

/// Returns the longest round trip of each millisecond, as the median of the rounds.
fn points(series: &Series<Run>, before: f64) -> Vec<(f64, f64)> {
    let length = series.runs.iter().map(|run| run.timeline.len()).min();
    let point = |i: usize| {
        let greatest = series.runs.iter().filter_map(|run| run.timeline[i]);
        let greatest: Vec<_> = greatest.collect();
        (!greatest.is_empty()).then(|| (i as f64 - before, median(greatest)))
    };
    (0..length.unwrap_or(0)).filter_map(point).collect()
}

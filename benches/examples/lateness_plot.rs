//! Draws how late sleeps wake up: a curve for each way to sleep, on an idle runtime and on a busy one.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example lateness_plot -- docs/img
//! ```

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use plotters::prelude::*;
use tokio_wheel_benches::{
    late::Late,
    lateness::{Scene, Sleeper},
};

/// Measures how late sleeps wake up, and draws `lateness-idle.svg` and `lateness-busy.svg`.
#[derive(Parser)]
struct Args {
    /// The folder to put them in.
    folder: PathBuf,
    /// How often each curve is measured. It shows all rounds together.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

const SIZE: (u32, u32) = (840, 440);

/// What the curves may span, in microseconds.
const SPAN: (f64, f64) = (1.0, 100_000.0);

/// There is no background, so the page's own shows: everything is drawn in colours that can be told
/// from white as well as from black.
const GREY: RGBColor = RGBColor(128, 128, 128);

const COLOURS: [RGBColor; 8] = [
    RGBColor(224, 72, 62),
    RGBColor(48, 136, 224),
    RGBColor(150, 98, 214),
    RGBColor(152, 118, 84),
    RGBColor(40, 162, 84),
    RGBColor(214, 134, 24),
    RGBColor(0, 160, 168),
    RGBColor(214, 88, 164),
];

fn main() -> Result<()> {
    let args = Args::parse();
    fs::create_dir_all(&args.folder)?;
    let scenes = [
        (
            Scene::Idle,
            "lateness-idle.svg",
            "Sleeps of 1 to 100 ms on an idle runtime",
        ),
        (
            Scene::Busy,
            "lateness-busy.svg",
            "The same sleeps beside a task that yields in a loop",
        ),
    ];
    let sleepers = Sleeper::value_variants();
    let runs = scenes.len() as u64 * u64::from(args.rounds) * sleepers.len() as u64;
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}, {eta} left")?;
    let progress = ProgressBar::new(runs).with_style(style);
    for (scene, file, caption) in scenes {
        let mut curves: Vec<Late> = sleepers.iter().map(|_| Late::default()).collect();
        for _ in 0..args.rounds {
            for (&sleeper, curve) in sleepers.iter().zip(&mut curves) {
                progress.set_message(format!("{}: {}", scene.title(), sleeper.name()));
                *curve += sleeper.play(scene).late;
                progress.inc(1);
            }
        }
        draw(&args.folder.join(file), caption, &curves)?;
    }
    progress.finish_and_clear();
    Ok(())
}

/// Draws one curve for each of the sleepers, in their order.
fn draw(path: &Path, caption: &str, curves: &[Late]) -> Result<()> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    let text = |size: u32| ("sans-serif", size).into_font().color(&GREY);
    let mut chart = ChartBuilder::on(&area)
        .caption(caption, text(20))
        .margin(12)
        .margin_right(36)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d((SPAN.0..SPAN.1).log_scale(), 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc("lateness")
        .y_desc("sleeps that are at most so late")
        .x_label_formatter(&|&us| time(us))
        .y_label_formatter(&|part| format!("{:.0}%", part * 100.0))
        .label_style(text(15))
        .axis_style(GREY)
        .bold_line_style(GREY.mix(0.3))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for ((sleeper, late), colour) in (Sleeper::value_variants().iter().zip(curves)).zip(COLOURS) {
        // The crate's own stand out.
        let width = if sleeper.is_ours() { 4 } else { 2 };
        let style = colour.stroke_width(width);
        chart
            .draw_series(LineSeries::new(steps(late), style))?
            .label(sleeper.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(text(15))
        .legend_area_size(28)
        .margin(12)
        .draw()?;
    area.present()?;
    Ok(())
}

/// The curve from one end of the axis to the other, with one step for all that would share a pixel.
/// What is later than the axis reaches is missing from its top.
fn steps(late: &Late) -> Vec<(f64, f64)> {
    let pixels_per_decade = f64::from(SIZE.0) / (SPAN.1 / SPAN.0).log10();
    let mut columns = BTreeMap::new();
    for (us, part) in late.cumulative().take_while(|&(us, _)| us <= SPAN.1) {
        let us = us.max(SPAN.0);
        columns.insert((us.log10() * pixels_per_decade) as u32, (us, part));
    }
    let mut points = vec![(SPAN.0, 0.0)];
    let mut below = 0.0;
    for (us, part) in columns.into_values() {
        points.extend([(us, below), (us, part)]);
        below = part;
    }
    points.push((SPAN.1, below));
    points
}

fn time(us: f64) -> String {
    if us < 1_000.0 {
        format!("{us:.0} µs")
    } else {
        format!("{:.0} ms", us / 1_000.0)
    }
}

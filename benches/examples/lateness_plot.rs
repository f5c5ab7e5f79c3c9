//! Draws how late sleeps wake up: a curve for each way to sleep, on an idle runtime and on a busy one.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example lateness_plot -- docs/img
//! ```

use std::{fs, path::PathBuf};

use anyhow::Result;
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tokio_wheel_benches::{
    late::Late,
    lateness::{Scene, Sleeper},
    plot,
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

fn main() -> Result<()> {
    let args = Args::parse();
    fs::create_dir_all(&args.folder)?;
    let scenes = [
        (Scene::Idle, "lateness-idle.svg"),
        (Scene::Busy, "lateness-busy.svg"),
    ];
    let sleepers = Sleeper::value_variants();
    let runs = scenes.len() as u64 * u64::from(args.rounds) * sleepers.len() as u64;
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}, {eta} left")?;
    let progress = ProgressBar::new(runs).with_style(style);
    for (scene, file) in scenes {
        let mut curves: Vec<Late> = sleepers.iter().map(|_| Late::default()).collect();
        for _ in 0..args.rounds {
            for (&sleeper, curve) in sleepers.iter().zip(&mut curves) {
                progress.set_message(format!("{}: {}", scene.title(), sleeper.name()));
                *curve += sleeper.play(scene).late;
                progress.inc(1);
            }
        }
        let curves: Vec<_> = sleepers.iter().copied().zip(&curves).collect();
        plot::lateness(&args.folder.join(file), scene, &curves)?;
    }
    progress.finish_and_clear();
    Ok(())
}

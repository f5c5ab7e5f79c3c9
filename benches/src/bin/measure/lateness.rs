//! The table of how late sleeps wake: every scene and everyone who can take part, in fresh processes.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;
use tokio_wheel_benches::{
    lateness::{Figures, Scene, Sleeper},
    process::in_fresh_process,
};

use crate::table::{self, median};

/// How often, whose, and where to.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each scene is played by each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these.
    #[arg(long)]
    peer: Vec<Sleeper>,
    /// Where to write the figures of each round and their medians.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One scene, played once.
#[derive(clap::Args)]
pub(crate) struct One {
    scene: Scene,
    sleeper: Sleeper,
}

impl One {
    /// Plays it and prints the figures as [`run`] expects them.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let figures = self.sleeper.play(self.scene).figures();
        println!("{}", serde_json::to_string(&figures)?);
        Ok(())
    }
}

/// A row of the table.
#[derive(Serialize)]
struct Row {
    scene: &'static str,
    peer: String,
    /// Medians; of what should not be at all, the sum over the rounds.
    figures: Figures,
    rounds: Vec<Figures>,
}

/// Measures, prints, and writes a file if asked to.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let asked = match &args.peer[..] {
        [] => Sleeper::value_variants(),
        asked => asked,
    };
    let mut rows = Vec::new();
    for &scene in Scene::value_variants() {
        let sleepers = asked.iter().copied().filter(|sleeper| sleeper.can(scene));
        let sleepers: Vec<_> = sleepers.collect();
        let mut figures = vec![Vec::new(); sleepers.len()];
        for _ in 0..args.rounds {
            for (&sleeper, figures) in sleepers.iter().zip(&mut figures) {
                figures.push(take(scene, sleeper)?);
            }
        }
        rows.extend((sleepers.iter().zip(figures)).map(|(sleeper, rounds)| Row {
            scene: scene.title(),
            peer: sleeper.name(),
            figures: summary(&rounds),
            rounds,
        }));
    }
    print(&rows);
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&rows)?;
        fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn take(scene: Scene, sleeper: Sleeper) -> anyhow::Result<Figures> {
    let scene = scene
        .to_possible_value()
        .context("a scene without a name")?;
    let args = ["lateness-sample", scene.get_name(), &sleeper.name()];
    Ok(serde_json::from_str(&in_fresh_process(&args)?)?)
}

fn summary(rounds: &[Figures]) -> Figures {
    let median = |figure: fn(&Figures) -> f64| median(rounds.iter().map(figure).collect());
    Figures {
        p50_us: median(|round| round.p50_us),
        p99_us: median(|round| round.p99_us),
        max_us: median(|round| round.max_us),
        cpu_ms: median(|round| round.cpu_ms),
        early: rounds.iter().map(|round| round.early).sum(),
        late_starts: rounds.iter().map(|round| round.late_starts).sum(),
    }
}

fn print(rows: &[Row]) {
    let heading = [
        "sleeps",
        "",
        "p50 us",
        "p99 us",
        "max us",
        "early",
        "late start",
        "cpu ms",
    ];
    let mut cells = vec![heading.map(str::to_owned).to_vec()];
    let mut scene = "";
    for row in rows {
        let figures = &row.figures;
        // The title of a scene stands in its first row alone.
        let title = if row.scene == scene { "" } else { row.scene };
        scene = row.scene;
        cells.push(vec![
            title.to_owned(),
            row.peer.clone(),
            format!("{:.1}", figures.p50_us),
            format!("{:.1}", figures.p99_us),
            format!("{:.1}", figures.max_us),
            figures.early.to_string(),
            figures.late_starts.to_string(),
            format!("{:.1}", figures.cpu_ms),
        ]);
    }
    table::print(&cells);
}

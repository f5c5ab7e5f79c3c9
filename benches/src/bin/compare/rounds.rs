//! Runs jobs in rounds. In each round the timers take their turns job by job, so that a machine that slows
//! down slows all of them.

use std::{path::PathBuf, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    job::Job,
    report::{Document, Measured},
};

/// Where to write what is measured.
#[derive(clap::Args)]
pub(crate) struct Output {
    /// Writes every sample and the medians into this file, after each round. `compare plot` reads it.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws plots of what was measured into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) svg: Option<PathBuf>,
}

/// Runs the jobs of each round, and returns what they measured.
pub(crate) fn run(rounds: &[Vec<Job>], output: &Output) -> anyhow::Result<Measured> {
    let total = rounds.iter().flatten().map(Job::millis).sum();
    let style = ProgressStyle::with_template("{wide_bar} {percent}%, {eta} left  {msg:40!}")?;
    let progress = ProgressBar::new(total).with_style(style);
    progress.enable_steady_tick(Duration::from_secs(1));
    let mut measured = Measured::new(rounds.len() as u32);
    for (number, jobs) in (0..).zip(rounds) {
        for job in jobs {
            progress.set_message(job.title());
            match job.run_apart() {
                Ok(outcome) => measured.add(number, outcome),
                // The rest is worth having.
                Err(error) => (measured.failed).push(format!("{}: {error:#}", job.title())),
            }
            progress.inc(job.millis());
        }
        if let Some(file) = &output.json {
            Document::of(&measured).write(file)?;
        }
    }
    progress.finish_and_clear();
    Ok(measured)
}

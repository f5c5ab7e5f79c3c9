//! Runs jobs in rounds. In each round the timers take turns job by job, so a machine that slows
//! down slows all timers.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    job::Job,
    machine::{Busy, Ticks},
    report::{Document, Measured},
};

/// How long to observe the machine before the first job.
const LOOK: Duration = Duration::from_millis(500);

/// Where to write the figures.
#[derive(clap::Args)]
pub(crate) struct Output {
    /// Writes every sample and the medians into this file, after each round. `compare plot` reads it.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws plots of the figures into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) svg: Option<PathBuf>,
}

/// Runs the jobs of each round, and returns what they measured. Prints the expected time before it
/// starts, and again after the first round.
pub(crate) fn run(rounds: &[Vec<Job>], output: &Output) -> anyhow::Result<Measured> {
    let expected = |rounds: &[Vec<Job>]| -> u64 { rounds.iter().flatten().map(Job::millis).sum() };
    let total = expected(rounds);
    if let Some(busy) = look().filter(|busy| busy.disturbs()) {
        eprintln!(
            "WARNING, a busy machine. Within the last {LOOK:?}:\n{}.",
            describe(busy)
        );
    }
    eprintln!(
        "Rounds: {}. Takes about {}.",
        rounds.len(),
        time(total as f64)
    );
    let style = ProgressStyle::with_template("{wide_bar} {percent}%, {eta} left  {msg:60!}")?;
    let progress = ProgressBar::new(total).with_style(style);
    progress.enable_steady_tick(Duration::from_secs(1));

    let mut measured = Measured::new(rounds.len() as u32);
    let (start, before) = (Instant::now(), Ticks::read());
    for (number, jobs) in (0..).zip(rounds) {
        for job in jobs {
            progress.set_message(format!("{job:?}"));
            match job.run_apart() {
                Ok(outcome) => measured.add(number, outcome),
                // Continues, because the other figures are still useful.
                Err(error) => (measured.failed).push(format!("{job:?}: {error:#}")),
            }
            progress.inc(job.millis());
        }
        let elapsed = start.elapsed();
        measured.seconds = Some(elapsed.as_secs_f64());
        measured.busy = (before.zip(Ticks::read())).and_then(|(before, now)| now.since(before));
        if let Some(file) = &output.json {
            Document::of(&measured).write(file)?;
        }
        let rest = expected(&rounds[number as usize + 1..]);
        if number == 0 && rest > 0 {
            let took = elapsed.as_secs_f64() * 1e3;
            let rest = rest as f64 * took / expected(&rounds[..1]) as f64;
            let line = format!(
                "The first round took {}. About {} left.",
                time(took),
                time(rest)
            );
            progress.suspend(|| eprintln!("{line}"));
        }
    }
    progress.finish_and_clear();
    Ok(measured)
}

/// Returns how busy other programs are before the first job.
fn look() -> Option<Busy> {
    let before = Ticks::read()?;
    thread::sleep(LOOK);
    Ticks::read()?.since(before)
}

/// Describes the shares of the cores' time in words.
pub(crate) fn describe(busy: Busy) -> String {
    let percent = |share: f64| share * 100.0;
    format!(
        "other processes took {:.0}% of the cores' time and the host {:.0}%",
        percent(busy.others),
        percent(busy.stolen),
    )
}

/// Describes a duration of `millis` milliseconds in words.
pub(crate) fn time(millis: f64) -> String {
    let seconds = (millis / 1e3).round() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

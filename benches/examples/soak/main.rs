//! Does everything that users do with timers, at random and at once, for any length of time.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example soak -- --minutes 20
//! .ci/soak 20
//! ```
//!
//! | file          | holds                                                             |
//! |---------------|-------------------------------------------------------------------|
//! | `epoch.rs`    | some seconds of load, and the check that nothing is left of it    |
//! | `ops.rs`      | the random operations                                             |
//! | `short_lived.rs` | runtimes that start and shut down                              |
//! | `storm.rs`    | very many timers that expire at once                              |
//! | `saturated.rs` | tasks that are always ready, and two probes beside them          |
//! | `migration.rs` | sleeps that migrate to another task, runtime or thread           |
//! | `target.rs`   | runtimes and their timers, and whether they have ended            |
//! | `join_set.rs` | the threads and tasks of an epoch, and whether they end           |
//! | `ledger.rs`   | what happened to every timer, how late it was, and whether it is lost |
//! | `memory.rs`   | the memory in use, its peak and its floor                         |
//! | `gap.rs`      | how long a task waits for its turn beside expiring timers         |
//! | `faults.rs`   | invariants that broke                                             |
//! | `report.rs`   | the report at the end                                             |
//!
//! The program exits with 1 if an invariant broke. The seed decides which operations run, but not
//! in which order the threads run them. Ctrl-C ends the program after the epoch, with a report.

mod epoch;
mod faults;
mod gap;
mod join_set;
mod ledger;

mod memory;
mod migration;
mod ops;
mod report;
mod saturated;
mod short_lived;
mod storm;
mod target;

use std::{
    mem,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Parser;
use fastrand::Rng;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    epoch::{Kind, Steady},
    join_set::Stop,
    memory::{Floors, Reading},
    report::Run,
};

/// How often to read the memory in use, for its peak.
const SAMPLE: Duration = Duration::from_millis(5);

/// The first of this many epochs is saturated, so that a short run has a saturated epoch.
const SATURATED_OF: u64 = 3;

/// Does everything that users do with timers, at random, and checks the crate's promises.
#[derive(Parser)]
struct Args {
    /// How many minutes to run. A part of a minute is enough for a first look.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Decides which operations run. Without it, each run has another seed.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut rng = Rng::with_seed(seed);
    let length = Duration::from_secs_f64(args.minutes * 60.0);
    let style = ProgressStyle::with_template("{bar:30} {msg}")?;
    let progress = ProgressBar::new(length.as_millis() as u64).with_style(style);
    faults::watch_panics();

    let interrupted = Stop::default();
    thread::spawn({
        let interrupted = interrupted.clone();
        move || wait_for_interrupt(&interrupted)
    });
    let stop = Stop::default();
    let watchdog = watch(&stop);
    let sampler = sample(&stop);

    let mut steady = Steady::start();
    thread::sleep(Duration::from_millis(100));
    let mut floors = Floors::new();
    let start = Instant::now();
    let mut epochs = 0_u64;
    let mut has_ended = true;
    while has_ended && !interrupted.is_raised() && (epochs == 0 || start.elapsed() < length) {
        let left = length.saturating_sub(start.elapsed());
        let epoch = Duration::from_millis(rng.u64(2_000..6_000)).min(left);
        // The first epoch has no storm, so it shows the memory before the first storm.
        let has_storm = epochs > 0;
        let kind = Kind {
            has_storm,
            is_saturated: epochs.is_multiple_of(SATURATED_OF),
        };
        has_ended = steady.epoch(&mut rng, epoch, kind, &interrupted);
        if has_ended {
            floors.note();
        }
        epochs += 1;
        progress.set_position(start.elapsed().as_millis() as u64);
        progress.set_message(progress_line(start.elapsed(), epochs));
        if progress.is_hidden() {
            eprintln!("{}", progress_line(start.elapsed(), epochs));
        }
    }
    progress.finish_and_clear();
    if has_ended {
        floors.look_at_trend();
        steady.end();
    } else {
        // Leaks the runtime, because dropping it would wait for the tasks that hang.
        mem::forget(steady);
    }
    stop.raise();
    watchdog.join().expect("it does not panic");
    let run = Run {
        seed,
        took: start.elapsed(),
        epochs,
        peak: sampler.join().expect("it does not panic"),
        floors,
    };
    Ok(match run.report() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn progress_line(elapsed: Duration, epochs: u64) -> String {
    let (broken, _) = faults::all();
    let (sums, done) = (ledger::sums(), report::done());
    format!(
        "{elapsed:.0?}, {epochs} epochs, {done} operations, {} timers, {broken} broken",
        sums.made
    )
}

/// Starts a thread that searches for lost timers all the time.
fn watch(stop: &Stop) -> thread::JoinHandle<()> {
    let stop = stop.clone();
    thread::spawn(move || {
        while !stop.is_raised() {
            ledger::watch();
            thread::sleep(Duration::from_millis(500));
        }
    })
}

/// Starts a thread that returns the peak of the memory in use.
fn sample(stop: &Stop) -> thread::JoinHandle<Reading> {
    let stop = stop.clone();
    thread::spawn(move || {
        let mut peak = Reading::default();
        while !stop.is_raised() {
            let now = Reading::take();
            peak.heap = peak.heap.max(now.heap);
            peak.resident = peak.resident.max(now.resident);
            thread::sleep(SAMPLE);
        }
        peak
    })
}

fn wait_for_interrupt(interrupted: &Stop) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("cannot start a runtime");
    if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
        interrupted.raise();
    }
}

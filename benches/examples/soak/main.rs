//! Everything that users do with timers, at random and at once, for as long as you like.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example soak -- --minutes 20
//! .ci/soak 20
//! ```
//!
//! The script, with a number of minutes, builds the crate so that it measures its locks, which the command
//! above does not.
//!
//! | file          | holds                                                             |
//! |---------------|-------------------------------------------------------------------|
//! | `epoch.rs`    | some seconds of load, and what must be left of it: nothing        |
//! | `ops.rs`      | what is done at random                                            |
//! | `short_lived.rs` | runtimes that start and shut down                              |
//! | `storm.rs`    | very many timers due at once                                      |
//! | `saturated.rs` | tasks that are always ready, and two probes beside them          |
//! | `migration.rs` | sleeps that migrate to another task, runtime or thread           |
//! | `target.rs`   | runtimes and their timers, and whether they have ended            |
//! | `join_set.rs` | the threads and tasks of an epoch, and whether they end           |
//! | `ledger.rs`   | what became of every timer, how late it was, and whether it is lost |
//! | `memory.rs`   | the memory in use, its peak and its floor                         |
//! | `locks.rs`    | how long locks were held                                          |
//! | `faults.rs`   | invariants that broke                                             |
//! | `report.rs`   | what is printed at the end                                        |
//!
//! It exits with 1 if an invariant broke. The seed decides what is done, but not in which order threads
//! do it. Ctrl-C ends it after the epoch, with a report.

mod epoch;
mod faults;
mod join_set;
mod ledger;
mod locks;
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
    locks::Control,
    memory::{Floors, Reading},
    report::Run,
};

/// How often a look is taken for the peak of the memory in use.
const SAMPLE: Duration = Duration::from_millis(5);

/// The first of so many epochs is saturated, so that a short run has one.
const SATURATED_OF: u64 = 3;

/// Does all that can be done with timers, at random, and looks whether what is promised holds.
#[derive(Parser)]
struct Args {
    /// How long; a part of a minute is enough for a first look.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Decides what is done. Another one each time, if it is not given.
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
    let control = thread::spawn({
        let stop = stop.clone();
        move || Control::run(|| stop.is_raised())
    });

    locks::measure();
    let mut steady = Steady::start();
    thread::sleep(Duration::from_millis(100));
    let mut floors = Floors::new();
    let start = Instant::now();
    let mut epochs = 0_u64;
    let mut has_ended = true;
    while has_ended && !interrupted.is_raised() && (epochs == 0 || start.elapsed() < length) {
        let left = length.saturating_sub(start.elapsed());
        let epoch = Duration::from_millis(rng.u64(2_000..6_000)).min(left);
        // Without one, the first shows what the memory is when no storm has left any.
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
        // It would wait for what hangs.
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
        control: control.join().expect("it does not panic"),
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

/// Looks for lost timers, all the time.
fn watch(stop: &Stop) -> thread::JoinHandle<()> {
    let stop = stop.clone();
    thread::spawn(move || {
        while !stop.is_raised() {
            ledger::watch();
            thread::sleep(Duration::from_millis(500));
        }
    })
}

/// The most memory in use.
fn sample(stop: &Stop) -> thread::JoinHandle<Reading> {
    let stop = stop.clone();
    thread::spawn(move || {
        let mut peak = Reading::default();
        while !stop.is_raised() {
            peak = peak.max(Reading::take());
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

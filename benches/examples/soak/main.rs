//! Does what users do with sleeps, timeouts and scheduled tasks, at random and at once, for any length of time.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example soak -- --minutes 20
//! ```
//!
//! The program exits with 1 if an invariant broke. The seed decides which operations run, but not
//! in which order the threads run them.

mod epoch;
mod faults;
mod memory;
mod ops;
mod short_lived;
mod storm;
mod target;

use std::{
    process::exit,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use fastrand::Rng;
use indicatif::HumanCount;

use crate::{epoch::Steady, memory::Floor};

/// Does what users do with sleeps, timeouts and scheduled tasks, at random, and checks the crate's promises.
#[derive(Parser)]
struct Args {
    /// How many minutes to run. A part of a minute is enough for a first look.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Decides which operations run. Without it, each run has another seed.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut rng = Rng::with_seed(seed);
    let length = Duration::from_secs_f64(args.minutes * 60.0);
    println!("seed {seed}");
    faults::watch_panics();

    let mut steady = Steady::start();
    thread::sleep(Duration::from_millis(100));
    let mut floor = Floor::new();
    let start = Instant::now();
    let mut epochs = 0_u64;
    let mut has_ended = true;
    while has_ended && (epochs == 0 || start.elapsed() < length) {
        let left = length.saturating_sub(start.elapsed());
        let epoch = Duration::from_millis(rng.u64(2_000..6_000)).min(left);
        // The first epoch has no storm, so it shows the memory before the first storm.
        let has_storm = epochs > 0;
        has_ended = steady.epoch(&mut rng, epoch, has_storm);
        if has_ended {
            floor.check();
        }
        epochs += 1;
        println!(
            "{:.0?}, {epochs} epochs: {} operations, {} timers, {} storms, {} runtimes shut down, {floor}",
            start.elapsed(),
            HumanCount(ops::DONE.load(Relaxed)),
            HumanCount(target::SLEEPS.load(Relaxed)),
            storm::DONE.load(Relaxed),
            HumanCount(short_lived::DONE.load(Relaxed)),
        );
    }
    if has_ended {
        steady.end();
    }
    let broken = faults::count();
    match broken {
        0 => println!("all invariants held"),
        _ => println!("{broken} invariants BROKEN"),
    }
    // Unlike a return, this does not drop the runtime, which would wait for tasks that hang.
    exit(i32::from(broken > 0));
}

//! Proves that very many sleeps are never early, on a busy host.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example never_early
//! ```
//!
//! Each task makes one sleep after the other, sees each sleep pending at its first poll, and waits
//! for its end. It reads the clock before it makes a sleep and after the sleep is ready. In the
//! meantime, other threads spin, so that the host has more threads to run than processors.

use std::{
    future::{Future, poll_fn},
    hint,
    pin::pin,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use clap::Parser;
use futures_util::future::join_all;
use indicatif::HumanCount;
use tokio_wheel::sleep;
use tokio_wheel_benches::late::{Late, late_by};

/// Proves that very many sleeps are never early.
#[derive(Parser)]
struct Options {
    /// How many sleeps to make.
    #[arg(long, default_value_t = 10_000_000)]
    sleeps: u64,
    /// How many tasks make them.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    at_a_time: u64,
    /// The shortest and the longest sleep, in seconds.
    #[arg(long, default_value_t = 2.0)]
    shortest: f64,
    #[arg(long, default_value_t = 10.0)]
    longest: f64,
    /// How many threads spin in the meantime. By default, twice as many as there are processors.
    #[arg(long)]
    busy: Option<usize>,
}

/// Makes sleeps of one task, and returns how late they were.
async fn sleeps(count: u64, shortest: f64, longest: f64) -> Vec<i64> {
    let mut late = Vec::new();
    for _ in 0..count {
        let seconds = shortest + (longest - shortest) * fastrand::f64();
        let duration = Duration::from_secs_f64(seconds);
        let deadline = Instant::now() + duration;
        let mut sleep = pin!(sleep(duration));
        let is_pending = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_pending())).await;
        assert!(is_pending, "a sleep of {duration:?} was ready at once");
        sleep.await;
        late.push(late_by(deadline));
    }
    late
}

fn main() -> Result<()> {
    let Options {
        sleeps: all,
        at_a_time,
        shortest,
        longest,
        busy,
    } = Options::parse();
    ensure!(
        0.0 < shortest && shortest <= longest,
        "the shortest sleep must be above 0 s and at most as long as the longest"
    );
    static DONE: AtomicBool = AtomicBool::new(false);
    let busy = busy.unwrap_or(2 * thread::available_parallelism()?.get());
    for _ in 0..busy {
        thread::spawn(|| {
            while !DONE.load(Relaxed) {
                hint::spin_loop();
            }
        });
    }
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()?;
    let count = |task| all / at_a_time + u64::from(task < all % at_a_time);
    let tasks = (0..at_a_time).map(|task| runtime.spawn(sleeps(count(task), shortest, longest)));
    let late = runtime.block_on(join_all(tasks));
    DONE.store(true, Relaxed);
    let late: Late = late
        .into_iter()
        .flat_map(|late| late.expect("a sleep panicked"))
        .collect();
    println!(
        "{} sleeps beside {busy} busy threads, in {:.0?}: late by {:.3} ms at least, {:.3} in the \
         median, {:.3} at most",
        HumanCount(late.count()),
        began.elapsed(),
        late.ms(0.0),
        late.ms(0.5),
        late.ms(1.0),
    );
    ensure!(late.early() == 0, "{} sleeps were early", late.early());
    Ok(())
}

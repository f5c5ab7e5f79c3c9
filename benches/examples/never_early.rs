//! Proves that long sleeps on a coarse timer are never early, on a busy host.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example never_early
//! ```
//!
//! Each task makes one sleep after the other, sees each sleep pending at its first poll, and waits
//! for its end. It reads the exact clock before it makes a sleep and after the sleep is ready. In
//! the meantime, other threads spin, so that the host has more threads to run than processors. The
//! program fails if a sleep was ready before its duration had elapsed, or if the sleeps did not use
//! the coarse clock.

use std::{
    future::{Future, poll_fn},
    hint,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio_wheel::{Timer, sleep};

/// How often the progress bar moves.
const REDRAWN_EVERY: Duration = Duration::from_millis(200);

#[derive(Parser)]
#[command(about = "Proves that long sleeps on a coarse timer are never early")]
struct Options {
    /// How many sleeps to make.
    #[arg(long, default_value_t = 10_000_000)]
    sleeps: u64,
    /// How many tasks make them. A task needs about 300 bytes.
    #[arg(long, default_value_t = 1_000_000)]
    at_a_time: u64,
    /// The shortest sleep, in seconds.
    #[arg(long, default_value_t = 2.0)]
    shortest: f64,
    /// The longest sleep, in seconds.
    #[arg(long, default_value_t = 10.0)]
    longest: f64,
    /// How many threads spin in the meantime. By default, twice as many as there are processors.
    #[arg(long)]
    busy: Option<usize>,
}

/// The results of the sleeps so far, in nanoseconds.
struct Record {
    sleeps: AtomicU64,
    /// The number of sleeps that counted from the coarse clock. Their deadline is later than their
    /// duration counted from the exact clock.
    coarse: AtomicU64,
    early: AtomicU64,
    /// The smallest distance from the end of a duration to the deadline.
    least_margin_left: AtomicI64,
    /// The smallest distance from the end of a duration to the sleep being ready. The next field is
    /// the sum of these distances.
    least_late: AtomicI64,
    total_late: AtomicI64,
    worst_lag: AtomicI64,
}

impl Record {
    const fn new() -> Self {
        Self {
            sleeps: AtomicU64::new(0),
            coarse: AtomicU64::new(0),
            early: AtomicU64::new(0),
            least_margin_left: AtomicI64::new(i64::MAX),
            least_late: AtomicI64::new(i64::MAX),
            total_late: AtomicI64::new(0),
            worst_lag: AtomicI64::new(0),
        }
    }

    /// Makes a sleep, polls it, waits for its end, and notes what the exact clock says.
    async fn sleep(&self, duration: Duration) {
        let exact = to_duration(clock_gettime(ClockId::Monotonic));
        let created = Instant::now();
        let mut sleep = pin!(sleep(duration));
        let made = Instant::now();
        let coarse = to_duration(clock_gettime(ClockId::MonotonicCoarse));
        let deadline = sleep.deadline().into_std();
        let is_pending = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_pending())).await;
        assert!(is_pending, "a sleep of {duration:?} was ready at once");
        sleep.await;
        let late = signed(Instant::now(), created + duration);

        self.sleeps.fetch_add(1, Relaxed);
        self.coarse
            .fetch_add((deadline > made + duration).into(), Relaxed);
        self.early.fetch_add((late < 0).into(), Relaxed);
        self.least_margin_left
            .fetch_min(signed(deadline, created + duration), Relaxed);
        self.least_late.fetch_min(late, Relaxed);
        self.total_late.fetch_add(late, Relaxed);
        let lag = exact.saturating_sub(coarse).as_nanos() as i64;
        self.worst_lag.fetch_max(lag, Relaxed);
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(
        0.0 < options.shortest && options.shortest <= options.longest,
        "the shortest sleep must be above 0 s and at most as long as the longest"
    );
    let processors = thread::available_parallelism()?.get();
    let busy = options.busy.unwrap_or(2 * processors);
    let stop = Arc::new(AtomicBool::new(false));
    let spinning: Vec<_> = (0..busy).map(|_| spin(stop.clone())).collect();
    let began = Instant::now();
    let record = Arc::new(Record::new());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()?;
    runtime.block_on(run(&options, record.clone()))?;
    stop.store(true, Relaxed);
    for thread in spinning {
        thread.join().expect("a busy thread panicked");
    }
    report(&record, busy, began.elapsed())
}

async fn run(options: &Options, record: Arc<Record>) -> Result<()> {
    Timer::builder().coarse().install()?;
    know_the_timer().await;
    let bar = ProgressBar::new(options.sleeps);
    bar.set_style(ProgressStyle::with_template(
        "{elapsed_precise} {bar:40} {human_pos} of {human_len} sleeps",
    )?);
    let tasks = options.at_a_time.min(options.sleeps);
    let (shortest, longest) = (options.shortest, options.longest);
    for number in 0..tasks {
        let sleeps = options.sleeps / tasks + u64::from(number < options.sleeps % tasks);
        let record = record.clone();
        tokio::spawn(async move {
            for _ in 0..sleeps {
                let seconds = shortest + (longest - shortest) * fastrand::f64();
                record.sleep(Duration::from_secs_f64(seconds)).await;
            }
        });
    }
    loop {
        let sleeps = record.sleeps.load(Relaxed);
        bar.set_position(sleeps);
        if sleeps == options.sleeps {
            break;
        }
        tokio::time::sleep(REDRAWN_EVERY).await;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Lets every worker learn its runtime's timer, which takes a few sleeps.
async fn know_the_timer() {
    let tasks: Vec<_> = (0..10_000)
        .map(|_| tokio::spawn(sleep(Duration::from_millis(100))))
        .collect();
    for task in tasks {
        task.await.expect("a sleep panicked");
    }
}

fn spin(stop: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        while !stop.load(Relaxed) {
            hint::spin_loop();
        }
    })
}

fn report(record: &Record, busy: usize, took: Duration) -> Result<()> {
    let sleeps = record.sleeps.load(Relaxed);
    let coarse = record.coarse.load(Relaxed);
    let early = record.early.load(Relaxed);
    let millis = |nanos: i64| nanos as f64 / 1e6;
    let least_late = millis(record.least_late.load(Relaxed));
    println!(
        "{} sleeps beside {busy} busy threads, in {took:.0?}",
        HumanCount(sleeps)
    );
    println!(
        "  counted from the coarse clock:      {}",
        HumanCount(coarse)
    );
    println!("  ready after the duration, at least: {least_late:.3} ms");
    println!(
        "  ready after the duration, mean:     {:.3} ms",
        millis(record.total_late.load(Relaxed)) / sleeps as f64
    );
    println!(
        "  deadline after it, at least:        {:.3} ms",
        millis(record.least_margin_left.load(Relaxed))
    );
    println!(
        "  greatest lag of the coarse clock:   {:.3} ms",
        millis(record.worst_lag.load(Relaxed))
    );
    ensure!(
        early == 0,
        "{} of {} sleeps were early, one of them by {:.3} ms",
        HumanCount(early),
        HumanCount(sleeps),
        -least_late
    );
    // If the thread is interrupted while it makes a sleep, it reads the second time later.
    ensure!(
        coarse >= sleeps / 10 * 9,
        "{} of {} sleeps used the coarse clock",
        HumanCount(coarse),
        HumanCount(sleeps)
    );
    Ok(())
}

/// Returns the nanoseconds from `base` to `instant`. The result is negative if `instant` is
/// earlier.
fn signed(instant: Instant, base: Instant) -> i64 {
    let after = instant.saturating_duration_since(base).as_nanos() as i64;
    after - base.saturating_duration_since(instant).as_nanos() as i64
}

fn to_duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

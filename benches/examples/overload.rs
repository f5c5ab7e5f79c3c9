//! Measures how an idle set of 1,000,000 keys sheds load: `Reaper::shed`, and a rise of the
//! pressure.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example overload
//! ```
//!
//! All times are processor times, so a busy machine disturbs them less.
//!
//! The deadlines are spread over 60,000 ticks, as with a timeout of 60 s and the tick of 1 ms. Here
//! the tick is 0.1 ms, so inserting the keys takes 6 s.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use clap::Parser;
use futures_util::Stream;
use tokio_wheel::{
    Timer,
    idle::{IdleSet, Reaper},
};
use tokio_wheel_benches::lab;

/// The length of a tick.
const TICK: Duration = Duration::from_micros(100);

/// The timeout of the set, in ticks.
const TIMEOUT: u32 = 60_000;

/// The timeout that the highest pressure leaves, in ticks.
const MIN_TIMEOUT: u32 = 10_000;

/// Measures what it costs to relieve an idle set.
#[derive(Parser)]
struct Args {
    /// How many keys there are.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// How many keys are shed at a time.
    #[arg(long, default_value_t = 1_000)]
    shed: usize,
    /// How often each figure is measured. The program prints the lowest value.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Which keys are touched again after all were inserted.
#[derive(Clone, Copy)]
enum Touched {
    None,
    /// Every other key.
    Half,
    /// Every key. A shed then moves every entry.
    All,
}

/// Returns a set whose keys were last touched at times spread evenly over its timeout, except for
/// the last hundredth.
fn filled(keys: u64, touched: Touched) -> (IdleSet<u64>, Reaper<u64>) {
    let timer = Timer::builder().tick(TICK).build().expect("it is allowed");
    let builder = IdleSet::builder(TIMEOUT * TICK).min_timeout(MIN_TIMEOUT * TICK);
    let (set, reaper) = builder.timer(&timer).build().expect("all is in range");
    let start = Instant::now();
    let span = TIMEOUT / 100 * 99 * TICK;
    let (all, again) = match touched {
        Touched::None => (keys, 0),
        Touched::Half => (keys, keys / 2),
        Touched::All => (keys, keys),
    };
    let step = if again == keys { 1 } else { 2 };
    for n in 0..all + again {
        let due = span.mul_f64(n as f64 / (all + again) as f64);
        while start.elapsed() < due {
            std::thread::sleep(TICK);
        }
        set.touch(&if n < all { n } else { (n - all) * step });
    }
    (set, reaper)
}

/// Returns the time of the first shed, and the times of all sheds until the set is empty.
fn sheds(args: &Args, touched: Touched) -> (Duration, Vec<Duration>) {
    let (set, mut reaper) = filled(args.keys, touched);
    let mut times = Vec::new();
    while !set.is_empty() {
        let ((count, _), time) = measured(|| shed(&mut reaper, args.shed));
        times.push(time);
        assert!(count == args.shed || set.is_empty());
    }
    let first = times[0];
    times.sort_unstable();
    (first, times)
}

/// Sheds up to `most` keys. Returns how many keys came out, and how often the stream yielded.
fn shed(reaper: &mut Reaper<u64>, most: usize) -> (usize, usize) {
    let (mut shed, mut count, mut turns) = (reaper.shed(most), 0, 0);
    let cx = &mut Context::from_waker(Waker::noop());
    loop {
        match Pin::new(&mut shed).poll_next(cx) {
            Poll::Ready(Some(_)) => count += 1,
            Poll::Ready(None) => return (count, turns),
            Poll::Pending => turns += 1,
        }
    }
}

/// How many connections a server at its limit accepts for [`accepts`].
const ACCEPTS: u32 = 1_000;

/// Measures a set in which all keys were touched again. Returns how often a shed of one key yields,
/// how long that shed takes, and how long an accepted connection then takes. An accepted connection
/// first has a short timeout for its handshake, then the timeout of the set, and one key is shed
/// for it.
fn accepts(args: &Args) -> (usize, Duration, Duration) {
    let (set, mut reaper) = filled(args.keys, Touched::All);
    let ((count, turns), first) = measured(|| shed(&mut reaper, 1));
    assert_eq!(count, 1);
    let ((), all) = measured(|| {
        for n in 0..u64::from(ACCEPTS) {
            set.touch_with_timeout(&(args.keys + n), TIMEOUT / 12 * TICK);
            set.touch_with_timeout(&(args.keys + n), TIMEOUT * TICK);
            assert_eq!(shed(&mut reaper, 1).0, 1);
        }
    });
    (turns, first, all / ACCEPTS)
}

/// Returns how long it takes to raise the pressure, how many keys then expire, and how long the
/// reaper works before it waits.
fn rise(args: &Args, touched: Touched) -> (Duration, usize, Duration) {
    let (set, mut reaper) = filled(args.keys, touched);
    reap(&mut reaper);
    let ((), rise) = measured(|| set.set_pressure(0.5));
    let (due, work) = measured(|| reap(&mut reaper));
    (rise, due, work)
}

/// Polls until the reaper waits. Returns how many keys came out.
fn reap(reaper: &mut Reaper<u64>) -> usize {
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(flag.clone());
    let mut due = 0;
    loop {
        match reaper.poll_reap(&mut Context::from_waker(&waker)) {
            Poll::Ready(_) => due += 1,
            Poll::Pending if flag.0.swap(false, Ordering::Relaxed) => {}
            Poll::Pending => return due,
        }
    }
}

/// Set when the reaper has woken itself, as it does between two turns.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the result of `act`, and the processor time that it takes.
fn measured<R>(act: impl FnOnce() -> R) -> (R, Duration) {
    let start = cpu_time();
    let result = act();
    (result, cpu_time() - start)
}

/// Returns the processor time of the calling thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn main() {
    let args = Args::parse();
    let runtime = lab::runtime(1);
    let _guard = runtime.enter();
    for (name, touched) in [
        ("touched once", Touched::None),
        ("half touched again", Touched::Half),
    ] {
        println!("{} keys, {name}", args.keys);
        for _ in 0..args.rounds {
            let (first, times) = sheds(&args, touched);
            let at = |part: f64| micros(times[((times.len() - 1) as f64 * part) as usize]);
            println!(
                "  shed({}): first {:.0} µs, median {:.0}, p90 {:.0}, p98 {:.0}, longest {:.0}",
                args.shed,
                micros(first),
                at(0.5),
                at(0.9),
                at(0.98),
                at(1.0)
            );
            let (rise, due, work) = rise(&args, touched);
            println!(
                "  pressure from 0 to 0.5: {:.2} µs; then {due} keys are due, which takes {:.0} µs",
                micros(rise),
                micros(work)
            );
        }
    }
    println!("{} keys, all touched again", args.keys);
    for _ in 0..args.rounds {
        let (turns, first, accept) = accepts(&args);
        println!(
            "  shed(1): first {:.0} µs, in which it gives way {turns} times; then with a short key for each: {:.2} µs",
            micros(first),
            micros(accept)
        );
    }
}

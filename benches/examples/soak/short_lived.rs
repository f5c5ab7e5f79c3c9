//! Starts runtimes, fills them with timers and shuts them down, one after the other.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use fastrand::Rng;
use futures_util::future::join_all;
use tokio::runtime::{self, Runtime};
use tokio_wheel::{Duration, Instant, Timer};

use crate::{
    faults,
    join_set::Stop,
    ledger::Class,
    migration::Migrations,
    ops,
    target::{Environment, Target},
};

/// How long a runtime that shuts down in the background may take to drop its timers.
const LIMIT: Duration = Duration::from_secs(10);

static RUNTIMES: AtomicU64 = AtomicU64::new(0);
static SHUTDOWNS: AtomicU64 = AtomicU64::new(0);

/// Returns how many runtimes were started and shut down, and how many timers `Timer::shutdown` has
/// shut down.
pub fn so_far() -> (u64, u64) {
    let runtimes = RUNTIMES.load(Ordering::Relaxed);
    (runtimes, SHUTDOWNS.load(Ordering::Relaxed))
}

/// Shuts a timer down, and counts it.
pub fn shut_down(timer: &Timer) {
    drop(timer.shutdown());
    SHUTDOWNS.fetch_add(1, Ordering::Relaxed);
}

/// Starts and ends runtimes until `stop`.
pub fn run_short_lived(migrations: Arc<Migrations>, seed: u64, stop: &Stop) {
    let mut rng = Rng::with_seed(seed);
    let mut closing = Vec::new();
    while !stop.is_raised() {
        closing.push(run_one(&migrations, &mut rng));
        closing.retain(|runtime| !runtime.is_closed());
        RUNTIMES.fetch_add(1, Ordering::Relaxed);
    }
    let until = Instant::now() + LIMIT;
    while !closing.is_empty() && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
        closing.retain(|runtime| !runtime.is_closed());
    }
    for Closing { timers, env } in closing {
        let holders = env.strong_count();
        faults::found(format!(
            "a runtime is gone, but {holders} sleeps or tasks of it are not, or its timers have entries: {timers:?}"
        ));
    }
}

/// A runtime that has shut down. A runtime that shuts down in the background drops its tasks later.
struct Closing {
    timers: Vec<Timer>,
    /// Each task and each unsettled sleep holds the environment.
    env: Weak<Environment>,
}

impl Closing {
    fn is_closed(&self) -> bool {
        let is_empty = |timer: &Timer| timer.is_shutdown() && timer.metrics().pending() == 0;
        self.timers.iter().all(is_empty) && self.env.strong_count() == 0
    }
}

/// Runs one runtime from its start to its end.
fn run_one(migrations: &Arc<Migrations>, rng: &mut Rng) -> Closing {
    let runtime = start(rng);
    let env = Arc::new(Environment {
        name: "a short-lived runtime",
        blocks: rng.u8(..4) == 0,
        loses_its_timer: rng.u8(..4) == 0,
        is_saturated: AtomicBool::new(false),
        migrations: migrations.clone(),
        ended: AtomicBool::new(false),
    });
    let entered = runtime.enter();
    let (class, installed) = install(rng, env.loses_its_timer);
    let ambient = Target::ambient(&env, class);
    let built = Timer::builder().shards(rng.usize(1..4)).build();
    let built = Target::of(&env, built.expect("in range"), Class::Built);
    let timers = vec![Timer::current(), built.timer()];
    drop(entered);
    for target in [&ambient, &built] {
        for _ in 0..rng.usize(..4) {
            runtime.spawn(ops::act(target.clone(), rng.u64(..), || false));
        }
        let waiting = rng.usize(..1_000);
        runtime.spawn(wait(target.clone(), waiting, rng.u64(1..100)));
    }
    let alive = Duration::from_micros(rng.u64(..40_000));
    match rng.bool() {
        true => runtime.block_on(async { tokio::time::sleep(alive).await }),
        false => thread::sleep(alive),
    }
    if let Some(installed) = installed.filter(|_| env.loses_its_timer) {
        shut_down(&installed);
    }
    if rng.u8(..3) == 0 {
        built.end();
        shut_down(&timers[1]);
        thread::sleep(Duration::from_millis(rng.u64(..3)));
    }
    env.ended.store(true, Ordering::SeqCst);
    match rng.u8(..4) {
        0 => drop(runtime),
        1 => runtime.shutdown_background(),
        2 => runtime.shutdown_timeout(Duration::from_millis(rng.u64(..5))),
        _ => thread::spawn(|| drop(runtime)).join().unwrap_or_default(),
    }
    let env = Arc::downgrade(&env);
    Closing { timers, env }
}

fn start(rng: &mut Rng) -> Runtime {
    let mut builder = match rng.u8(..3) > 0 {
        true => runtime::Builder::new_multi_thread(),
        false => runtime::Builder::new_current_thread(),
    };
    builder.worker_threads(rng.usize(1..3)).enable_all();
    builder.build().expect("cannot start a runtime")
}

/// Installs a default timer on the current runtime, or lets the runtime start one when it needs it.
/// Returns the installed timer, which always exists if it must be shut down.
fn install(rng: &mut Rng, must_install: bool) -> (Class, Option<Timer>) {
    let builder = Timer::builder();
    let (builder, class) = match rng.u8(..5) {
        1 => (builder.high_resolution(), Class::HighResolution),
        2 => (builder.tick(Duration::from_millis(1)), Class::Ambient),
        _ if must_install => (builder, Class::Ambient),
        _ => return (Class::Ambient, None),
    };
    let installed = builder.install().expect("nothing has used the runtime");
    (class, Some(installed))
}

/// Makes sleeps. Most of them are still pending when the runtime ends.
async fn wait(target: Arc<Target>, count: usize, millis: u64) {
    let mut rng = Rng::with_seed(millis);
    let sleeps = (0..count).map(|_| {
        let far = Duration::from_millis(rng.u64(millis..1_000 * millis));
        target.sleep(far)
    });
    let sleeps: Vec<_> = sleeps.collect();
    let all = async { drop(join_all(sleeps).await) };
    target.outlive(all).await;
}

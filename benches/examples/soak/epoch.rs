//! An epoch is some seconds of load, after which everything must be as before.
//!
//! The steady runtime lives through all epochs, with far sleeps pending. The timers that an epoch
//! adds to it end with the epoch, and so do other runtimes and plain threads. Then only the far
//! sleeps may be left.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    thread,
};

use fastrand::Rng;
use futures_lite::future::block_on;
use tokio::runtime::{self, Runtime};
use tokio_wheel::{Builder, Duration, Instant, Timer};

use crate::{
    faults, gap,
    join_set::{JoinSet, Stop},
    ledger::{self, Class},
    migration::{Migrations, receive},
    ops::act,
    saturated::{self, saturate},
    short_lived::{run_short_lived, shut_down},
    storm::{self, storm},
    target::{Environment, Target, Tracked},
};

/// The number of sleeps that are pending in all epochs.
const FAR: usize = 20_000;

/// The number of tasks that run operations, per timer.
const ACTORS: usize = 10;

/// How long a sleep may still be awaited elsewhere after the epoch. No sleep is longer than 0.3 s.
const LAST_ARRIVAL: Duration = Duration::from_secs(10);

/// The limit of the timer that limits its pending entries.
const MAX_PENDING: usize = 1_000;

/// What distinguishes an epoch from other epochs.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Whether very many timers expire at once.
    pub has_storm: bool,
    /// Whether tasks that are always ready keep the workers of the steady runtime busy.
    pub is_saturated: bool,
}

/// The runtime that lives through all epochs.
pub struct Steady {
    runtime: Runtime,
    /// The target of the far sleeps.
    target: Arc<Target>,
    /// The target of the storms.
    storms: Arc<Target>,
    far: Vec<Tracked>,
}

impl Steady {
    pub fn start() -> Self {
        saturated::prepare();
        gap::prepare();
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // The threads for blocking tasks must have ended when the memory is measured.
            .thread_keep_alive(Duration::from_millis(100))
            .enable_all()
            .build()
            .expect("cannot start a runtime");
        let env = env("the steady runtime", Arc::default(), false);
        let target = Target::ambient(&env, Class::Ambient);
        let entered = runtime.enter();
        let storms = Timer::builder().build().expect("it is in range");
        let storms = Target::of(&env, storms, Class::Storm);
        drop(entered);
        let mut steady = Self {
            runtime,
            target,
            storms,
            far: Vec::new(),
        };
        let entered = steady.runtime.enter();
        steady
            .far
            .extend((0..FAR).map(|n| steady.target.sleep(far(n))));
        for sleep in &mut steady.far {
            assert!(sleep.is_pending(&mut Context::from_waker(Waker::noop())));
        }
        drop(entered);
        steady
    }

    /// Runs an epoch. Asks `interrupted` from time to time. Returns whether another epoch can
    /// follow.
    pub fn epoch(
        &mut self,
        rng: &mut Rng,
        length: Duration,
        kind: Kind,
        interrupted: &Stop,
    ) -> bool {
        let until = Instant::now() + length;
        let (stop, migrations) = (Stop::default(), Arc::new(Migrations::default()));
        // Blocked workers would also make the probes late.
        let blocks = rng.u8(..3) == 0 && !kind.is_saturated;
        let env = env("the steady runtime", migrations.clone(), blocks);
        for env in [&env, &self.storms.env] {
            (env.is_saturated).store(kind.is_saturated, Ordering::SeqCst);
        }
        let mut join_set = JoinSet::default();

        let entered = self.runtime.enter();
        let mut targets: Vec<_> = (timers().into_iter())
            .map(|(builder, class)| (builder.build().expect("it is in range"), class))
            .map(|(timer, class)| Target::of(&env, timer, class))
            .collect();
        drop(entered);
        targets.push(Target::ambient(&env, Class::Ambient));
        for target in &targets {
            for _ in 0..ACTORS {
                let stop = stop.clone();
                let actor = act(target.clone(), rng.u64(..), move || stop.is_raised());
                join_set.task(format!("an actor on {target}"), self.runtime.spawn(actor));
            }
            let receiver = receive(target.clone(), migrations.add_receiver());
            join_set.task("a receiver", self.runtime.spawn(receiver));
        }
        if kind.is_saturated {
            let ambient = targets.last().expect("it was pushed");
            saturate(&self.runtime, ambient, &mut join_set, &stop);
        }
        self.start_outside(&mut join_set, &targets, rng, &stop);
        for blocks in [false, true] {
            let (migrations, stop, seed) = (migrations.clone(), stop.clone(), rng.u64(..));
            let env = self::env("a current-thread runtime", migrations, blocks);
            join_set.thread("a current-thread runtime", move || alone(&env, seed, &stop));
        }
        let seed = rng.u64(..);
        join_set.thread("short-lived runtimes", {
            let (migrations, stop) = (migrations.clone(), stop.clone());
            move || run_short_lived(migrations, seed, &stop)
        });
        join_set.thread("a runtime with a neighbor", {
            let stop = stop.clone();
            move || gap::observe(&stop)
        });

        let mut has_ended = !kind.has_storm || {
            let size = match kind.is_saturated {
                true => storm::SATURATED_SIZE,
                false => storm::SIZE,
            };
            storm(&self.runtime, &self.storms, size, rng)
        };
        while Instant::now() < until && !interrupted.is_raised() {
            self.put_off(rng);
            thread::sleep(Duration::from_millis(50));
        }
        stop.raise();
        migrations.close();
        has_ended &= join_set.join();
        if has_ended {
            for target in targets {
                finish(&self.runtime, &target, rng);
            }
            self.look();
        }
        has_ended
    }

    /// Starts threads outside of all runtimes. One of them has entered the runtime.
    fn start_outside(
        &self,
        join_set: &mut JoinSet,
        targets: &[Arc<Target>],
        rng: &mut Rng,
        stop: &Stop,
    ) {
        for target in targets {
            let (target, stop, seed) = (target.clone(), stop.clone(), rng.u64(..));
            let handle = (target.timer.is_none()).then(|| self.runtime.handle().clone());
            let receiver = target.env.migrations.add_receiver();
            join_set.thread(format!("a thread with {target}"), move || {
                let _entered = handle.as_ref().map(runtime::Handle::enter);
                block_on(act(target.clone(), seed, || stop.is_raised()));
                block_on(receive(target, receiver));
            });
        }
    }

    /// Postpones some far sleeps or moves them earlier, but never near.
    fn put_off(&mut self, rng: &mut Rng) {
        let _entered = self.runtime.enter();
        for _ in 0..100 {
            let sleep = &mut self.far[rng.usize(..FAR)];
            sleep.reset(&self.target, Instant::now() + far(rng.usize(..FAR)));
            if !sleep.is_pending(&mut Context::from_waker(Waker::noop())) {
                faults::found("a far sleep was ready".into());
            }
        }
    }

    /// Checks that only the far sleeps are left of an epoch.
    fn look(&self) {
        let timer = self.runtime.block_on(async { Timer::current() });
        let pending = timer.metrics().pending();
        if pending != self.far.len() as u64 {
            faults::found(format!("{FAR} far sleeps, but {pending} are pending"));
        }
        let pending = ledger::sums().pending;
        if pending != self.far.len() as u64 {
            let some = ledger::some_pending(&self.target);
            faults::found(format!(
                "{pending} timers, not {FAR}, are not settled: {some:#?}"
            ));
        }
        ledger::shrink();
    }

    /// Drops the far sleeps. Then no timer may be left.
    pub fn end(mut self) {
        self.far.clear();
        self.look();
    }
}

fn env(name: &'static str, migrations: Arc<Migrations>, blocks: bool) -> Arc<Environment> {
    Arc::new(Environment {
        name,
        blocks,
        loses_its_timer: false,
        is_saturated: AtomicBool::new(false),
        migrations,
        ended: AtomicBool::new(false),
    })
}

fn far(n: usize) -> Duration {
    Duration::from_secs(100_000 + 7 * n as u64)
}

/// Returns the timers of the steady runtime.
fn timers() -> [(Builder, Class); 3] {
    let builder = Timer::builder;
    [
        (builder(), Class::Built),
        (builder().high_resolution(), Class::HighResolution),
        (builder().max_pending(MAX_PENDING), Class::Limited),
    ]
}

/// Drives a current-thread runtime on this thread until `stop`.
fn alone(env: &Arc<Environment>, seed: u64, stop: &Stop) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("cannot start a runtime");
    let mut rng = Rng::with_seed(seed);
    let ambient = Target::ambient(env, Class::Ambient);
    let receiver = env.migrations.add_receiver();
    runtime.block_on(async {
        let built = Timer::builder().tick(Duration::from_millis(1)).build();
        let built = Target::of(env, built.expect("it is in range"), Class::Built);
        let mut tasks = vec![tokio::spawn(receive(ambient.clone(), receiver))];
        for target in [&ambient, &built] {
            for _ in 0..ACTORS {
                let stop = stop.clone();
                let actor = act(target.clone(), rng.u64(..), move || stop.is_raised());
                tasks.push(tokio::spawn(actor));
            }
        }
        for task in tasks {
            // The panic was already noted.
            let _ended = task.await;
        }
        // A receiver may still be awaiting a sleep of this runtime.
        let until = Instant::now() + LAST_ARRIVAL;
        let timers = [built.timer(), Timer::current()];
        let pending = || {
            timers
                .iter()
                .map(|timer| timer.metrics().pending())
                .sum::<u64>()
        };
        while pending() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let pending = pending();
        if pending > 0 {
            faults::found(format!("{pending} are pending on {}", env.name));
        }
    });
    env.ended.store(true, Ordering::SeqCst);
}

/// Checks whether a timer is empty. Then shuts it down while it has entries, or only drops it.
fn finish(runtime: &Runtime, target: &Arc<Target>, rng: &mut Rng) {
    let Some(timer) = &target.timer else { return };
    let pending = timer.metrics().pending();
    if pending > 0 {
        faults::found(format!("{pending} are pending on {target}"));
    }
    let _entered = runtime.enter();
    if target.class == Class::Limited {
        try_limit(timer);
    }
    if rng.bool() {
        shut_down_full(target, timer);
    }
}

/// Schedules tasks until the timer refuses one. The limit is wrong if the timer still counts an
/// entry that has left.
fn try_limit(timer: &Timer) {
    let schedule = || timer.schedule(Duration::from_secs(60), async {});
    let tasks: Vec<_> = std::iter::from_fn(|| schedule().ok())
        .take(2 * MAX_PENDING)
        .collect();
    let scheduled = tasks.len();
    let cancelled = tasks.iter().filter(|task| task.cancel()).count();
    let pending = timer.metrics().pending();
    if (scheduled, cancelled, pending) != (MAX_PENDING, MAX_PENDING, 0) {
        faults::found(format!(
            "under a limit of {MAX_PENDING}: {scheduled} scheduled, {cancelled} of these canceled, \
             {pending} pending"
        ));
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Shuts a timer down while sleeps are pending. The timer must wake all of them.
fn shut_down_full(target: &Arc<Target>, timer: &Timer) {
    const SLEEPS: usize = 1_000;
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let sleeps: Vec<_> = (0..SLEEPS)
        .map(|n| {
            let mut sleep = target.sleep(far(n));
            assert!(sleep.is_pending(&mut Context::from_waker(&waker)));
            sleep
        })
        .collect();
    target.end();
    shut_down(timer);
    let (count, pending) = (woken.0.load(Ordering::SeqCst), timer.metrics().pending());
    if (count, pending) != (SLEEPS, 0) {
        faults::found(format!(
            "of {SLEEPS} sleeps, {count} were woken and {pending} are pending after the shutdown of {target}"
        ));
    }
    drop(sleeps);
}

//! Starts runtimes, fills them with timers and shuts them down, one after the other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use fastrand::Rng;
use futures_util::future::join_all;
use tokio::runtime::Builder;
use tokio_wheel::{Duration, Timer};
use tokio_wheel_util::schedule::Scheduler;

use crate::{
    faults, ops,
    target::{Environment, Epoch, Target},
};

pub static DONE: AtomicU64 = AtomicU64::new(0);

pub fn run(epoch: &Arc<Epoch>, mut builder: Builder, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    while !epoch.is_over() {
        run_one(epoch, &mut builder, &mut rng);
        DONE.fetch_add(1, Ordering::Relaxed);
    }
}

fn run_one(epoch: &Arc<Epoch>, builder: &mut Builder, rng: &mut Rng) {
    let builder = builder.worker_threads(rng.usize(1..3)).enable_all();
    let runtime = builder.build().expect("cannot start a runtime");
    let entered = runtime.enter();
    let builder = match rng.u8(..5) {
        0 => Some(Timer::builder().high_resolution()),
        1 => Some(Timer::builder().tick(Duration::from_millis(1))),
        _ => None,
    };
    if let Some(builder) = builder {
        drop(builder.install().expect("nothing has used the runtime"));
    }
    let env = Arc::new(Environment {
        name: "a short-lived runtime",
        blocks: rng.u8(..4) == 0,
        scheduler: Scheduler::new(),
        epoch: epoch.clone(),
        ended: AtomicBool::new(false),
    });
    let timers = [
        Timer::current(),
        Timer::builder()
            .shards(rng.usize(1..4))
            .build()
            .expect("in range"),
    ];
    drop(entered);
    let default = Target::new(&env, "the default timer", None);
    let built = Target::new(&env, "a timer", Some(timers[1].clone()));
    for target in [&default, &built] {
        for _ in 0..rng.usize(..4) {
            runtime.spawn(ops::act(target.clone(), rng.u64(..), || false));
        }
        runtime.spawn(wait(target.clone(), rng.usize(..1_000), rng.u64(1..100)));
    }
    let alive = Duration::from_micros(rng.u64(..40_000));
    match rng.bool() {
        true => runtime.block_on(async { tokio::time::sleep(alive).await }),
        false => thread::sleep(alive),
    }
    if rng.u8(..3) == 0 {
        drop(env.scheduler.shutdown());
        thread::sleep(Duration::from_millis(rng.u64(..3)));
    }
    env.ended.store(true, Ordering::SeqCst);
    match rng.u8(..4) {
        0 => drop(runtime),
        1 => runtime.shutdown_background(),
        2 => runtime.shutdown_timeout(Duration::from_millis(rng.u64(..5))),
        _ => thread::spawn(|| drop(runtime)).join().unwrap_or_default(),
    }
    let is_empty = |timer: &Timer| timer.is_shutdown() && timer.metrics().pending() == 0;
    if !faults::eventually(|| timers.iter().all(is_empty)) {
        faults::found(format!(
            "a runtime has ended, but its timers have not: {timers:?}"
        ));
    }
}

async fn wait(target: Arc<Target>, count: usize, millis: u64) {
    let mut rng = Rng::with_seed(millis);
    let far = |_| target.sleep(Duration::from_millis(rng.u64(millis..1_000 * millis)));
    let sleeps: Vec<_> = (0..count).map(far).collect();
    target.outlive(async { drop(join_all(sleeps).await) }).await;
}

//! Blocks a worker of a runtime again and again, beside a task that sleeps.
//!
//! Without the watch, no sleep ends while the worker is blocked. With it, sleeps go on. The soak keeps all cores busy, so it
//! is a fault only if the sleeps stood still in half of the blocks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use fastrand::Rng;
use tokio::runtime;
use tokio_wheel::{Duration, Timer, sleep};

use crate::{faults, target::Epoch};

const BLOCK: Duration = Duration::from_millis(300);

const EACH: Duration = Duration::from_millis(10);

static BLOCKS: AtomicU64 = AtomicU64::new(0);
static STALLED: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);

pub fn observe(epoch: &Epoch, mut rng: Rng) {
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(rng.usize(2..5))
        .enable_all()
        .build()
        .expect("cannot start a runtime");
    let slept = Arc::new(AtomicU64::new(0));
    let sleeps = slept.clone();
    runtime.spawn(async move {
        loop {
            sleep(EACH).await;
            sleeps.fetch_add(1, Relaxed);
        }
    });
    while !epoch.is_over() {
        let (pause, slept) = (Duration::from_millis(rng.u64(1..50)), slept.clone());
        let blocking = runtime.spawn(async move {
            sleep(pause).await;
            let before = slept.load(Relaxed);
            thread::sleep(BLOCK);
            slept.load(Relaxed) - before
        });
        let slept = runtime.block_on(blocking).expect("it does not panic");
        BLOCKS.fetch_add(1, Relaxed);
        // A sleep that has already fired may end at the begin of a block.
        STALLED.fetch_add(u64::from(slept <= 1), Relaxed);
    }
    let _entered = runtime.enter();
    SEEN.fetch_add(Timer::current().metrics().blocks(), Relaxed);
}

pub fn judge() {
    let (blocks, stalled) = (BLOCKS.load(Relaxed), STALLED.load(Relaxed));
    let text = format!(
        "in {stalled} of {blocks} blocks of {BLOCK:?}, no other task's sleep ended; the watch has seen {}",
        SEEN.load(Relaxed)
    );
    println!("{text}");
    if 2 * stalled > blocks {
        faults::found(text);
    }
}

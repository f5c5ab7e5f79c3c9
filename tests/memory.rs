//! Measures memory with a counting allocator.
//!
//! The allocator also counts what the test harness allocates at the same time. So a test creates many objects, or
//! tolerates a few KiB.

#![cfg(feature = "idle")]

use std::{
    alloc::System,
    future::Future,
    pin::Pin,
    sync::Mutex,
    task::{Context, Waker},
};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio_wheel::{
    Duration, Sleep, Timer,
    idle::{IdleSet, Touched},
};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Lets one test run at a time, because the allocator counts for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns the result of `make`, and the number of bytes that it holds.
fn bytes_of<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(HEAP);
    let made = make();
    let change = region.change();
    let bytes = (change.bytes_allocated).saturating_sub(change.bytes_deallocated);
    (made, bytes)
}

/// A shard takes 13 KiB from its first key. So the memory of a small set depends on its keys, and
/// hardly on its number of shards.
#[test]
fn a_small_idle_set_takes_little() {
    let _alone = ALONE.lock();
    for (shards, used) in [(1, 1), (8, 5), (1_024, 5)] {
        let sets_of = |keys: u64| {
            let set = || {
                let builder = IdleSet::builder(Duration::from_secs(30)).shards(shards);
                let (set, reaper) = builder.build().unwrap();
                (0..keys).for_each(|key| assert_eq!(set.touch(&key), Touched::Inserted));
                (set, reaper)
            };
            let (sets, bytes) =
                bytes_of(|| std::iter::repeat_with(set).take(1_000).collect::<Vec<_>>());
            bytes / sets.len()
        };
        let (empty, small) = (sets_of(0), sets_of(5));
        let slots = 2_048 + 24 * shards;
        assert!(
            empty <= slots,
            "an empty set with {shards} shards takes {empty} bytes"
        );
        assert!(
            small <= slots + used * 13 * 1_024,
            "a set of 5 keys with {shards} shards takes {small} bytes"
        );
    }
}

/// Promise 13. The memory of the futures and the memory of their entries count together.
#[test]
fn a_pending_sleep_takes_at_most_80_bytes() {
    let _alone = ALONE.lock();
    const MANY: usize = 10_000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
    let cx = &mut Context::from_waker(Waker::noop());
    let (sleeps, bytes) = bytes_of(|| {
        let mut sleeps: Vec<Sleep> = Vec::with_capacity(MANY);
        sleeps.extend((0..MANY).map(|_| timer.sleep(Duration::from_secs(30))));
        for sleep in &mut sleeps {
            assert!(Pin::new(sleep).poll(cx).is_pending());
        }
        sleeps
    });
    assert_eq!(timer.metrics().pending(), sleeps.len() as u64);
    assert!(bytes <= 80 * MANY, "{MANY} sleeps take {bytes} bytes");
}

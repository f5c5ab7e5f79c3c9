//! How much memory things take, counted by the allocator.

#![cfg(feature = "idle")]

use std::{alloc::System, sync::Mutex};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio_wheel::{Duration, idle::IdleSet};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time: the allocator counts for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns what `make` makes, and the bytes that it takes.
fn bytes_of<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let _alone = ALONE.lock().unwrap();
    let region = Region::new(HEAP);
    let made = make();
    let change = region.change();
    (made, change.bytes_allocated - change.bytes_deallocated)
}

fn set_of(keys: u64, shards: usize) -> usize {
    let (_set, bytes) = bytes_of(|| {
        let builder = IdleSet::builder(Duration::from_secs(30)).shards(shards);
        let set = builder.build().unwrap();
        for key in 0..keys {
            set.0.touch(&key);
        }
        set
    });
    bytes
}

#[test]
fn a_small_idle_set_takes_little() {
    for shards in [1, 8, 256, 1_024] {
        let sizes = [0, 5, 100, 1_000, 10_000, 100_000, 1_000_000].map(|keys| set_of(keys, shards));
        println!("{shards}: {sizes:?} {}", sizes[6] as f64 / 1_000_000.0);
    }
}

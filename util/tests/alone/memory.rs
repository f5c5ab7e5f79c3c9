//! Measures memory with a counting allocator.

use std::time::Duration;

use tokio_wheel_util::{
    delay_queue::DelayQueue,
    idle::{IdleSet, Touched},
};

use super::{alone, bytes_of};

/// The number of bytes that the test harness may allocate.
const LITTLE: usize = 16 * 1_024;

/// A shard takes 13 KiB from its first key, and hardly anything before.
#[test]
fn a_small_idle_set_takes_little() {
    let _alone = alone();
    for (shards, used) in [(1, 1), (8, 5), (1_024, 5)] {
        let sets_of = |keys: u64| {
            let set = |_| {
                let builder = IdleSet::builder(Duration::from_secs(30)).shards(shards);
                let (set, reaper) = builder.build();
                (0..keys).for_each(|key| assert_eq!(set.touch(&key), Touched::Inserted));
                (set, reaper)
            };
            let (_sets, bytes) = bytes_of(|| (0..1_000).map(set).collect::<Vec<_>>());
            bytes / 1_000
        };
        let (empty, small) = (sets_of(0), sets_of(5));
        let slots = 2_048 + 24 * shards;
        assert!(empty <= slots, "{shards} shards, no key: {empty} bytes");
        let keys = used * 13 * 1_024;
        assert!(small <= slots + keys, "{shards} shards, 5 keys: {small}");
    }
}

/// A queue never moves its elements, so it allocates memory only when they come.
#[test]
fn reserving_allocates_nothing() {
    let _alone = alone();
    const MANY: usize = 1 << 27;
    let mut queue = DelayQueue::<u64>::new();
    let ((), bytes) = bytes_of(|| queue.reserve(MANY));
    assert!(queue.capacity() >= MANY);
    assert!(bytes <= LITTLE, "reserving took {bytes} bytes");
    let (queue, bytes) = bytes_of(|| DelayQueue::<u64>::with_capacity(1 << 31));
    assert_eq!(queue.capacity(), 1 << 31);
    assert!(bytes <= LITTLE, "a new queue took {bytes} bytes");
}

/// A new queue has its wheel on the heap. A thread whose stack overflows aborts the test.
#[test]
fn a_new_queue_needs_little_stack() {
    let _alone = alone();
    const STACK: usize = 24 * 1_024;
    let thread = std::thread::Builder::new().stack_size(STACK);
    let len = thread.spawn(|| DelayQueue::<u8>::new().len());
    assert_eq!(len.unwrap().join().unwrap(), 0);
}

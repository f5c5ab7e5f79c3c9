//! Numbers for threads. A thread takes them with few writes to shared state.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// The count of numbers that a thread takes at a time for [`unique`].
const BLOCK: u64 = 1_024;

/// Returns the number of the calling thread. Threads are numbered in the order in which they first ask.
pub(crate) fn number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// Returns a number that this function has never returned before in this process. The numbers are in no
/// order.
pub(crate) fn unique() -> u64 {
    static BLOCKS: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }
    let mut next = NEXT.get();
    if next % BLOCK == 0 {
        next = BLOCKS.fetch_add(BLOCK, Ordering::Relaxed);
    }
    NEXT.set(next + 1);
    next
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;

    #[test]
    fn a_thread_keeps_its_number() {
        let mine = number();
        let another = thread::spawn(|| [number(), number()]).join().unwrap();
        assert_eq!(another[0], another[1]);
        assert_ne!(mine, another[0]);
        assert_eq!(mine, number());
    }

    #[test]
    fn no_number_is_had_twice() {
        let take = || (0..3 * BLOCK).map(|_| unique()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(take)).collect();
        let mut seen = HashSet::new();
        for thread in threads {
            assert!(thread.join().unwrap().into_iter().all(|n| seen.insert(n)));
        }
    }
}

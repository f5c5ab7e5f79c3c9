//! Gives each thread a number.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the number of the calling thread. Threads are numbered in the order in which they first call this
/// function.
pub(crate) fn number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_keeps_its_number() {
        let mine = number();
        let another = thread::spawn(|| [number(), number()]).join().unwrap();
        assert_eq!(another[0], another[1]);
        assert_ne!(mine, another[0]);
        assert_eq!(mine, number());
    }
}

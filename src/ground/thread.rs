//! Gives each thread a number, and tells whose worker a thread is.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime;

use crate::ground::sync::worker_index;

/// Returns the number of the calling thread. Threads are numbered in the order in which they first call this
/// function.
pub(crate) fn number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// Returns whether `runtime` is the current runtime of the calling thread.
pub(crate) fn is_current(runtime: runtime::Id) -> bool {
    runtime::Handle::try_current().is_ok_and(|current| current.id() == runtime)
}

/// Returns whether the calling thread is a worker of `runtime`.
///
/// A worker may run code that has entered another runtime through a handle. The function then treats the
/// worker as a worker of the other runtime. So a worker that registers in a timer of its own runtime notifies
/// the driver's task, and a worker that registers in a timer of the other runtime sets the alarm.
pub(crate) fn is_worker_of(runtime: runtime::Id) -> bool {
    worker_index().is_some() && is_current(runtime)
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

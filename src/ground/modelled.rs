//! Replacements for types that loom cannot observe, and for which loom has no type of its own.

use std::cell::Cell;

pub(crate) use loom::sync::{
    Mutex as Inner, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize},
};

/// Declares a thread-local with the syntax of the standard macro. Loom's own macro does not accept
/// `const`.
macro_rules! modelled_thread_local {
    ($($(#[$attr:meta])* static $name:ident: $type:ty = const $init:block;)*) => {
        $(loom::thread_local! { $(#[$attr])* static $name: $type = $init; })*
    };
}
pub(crate) use modelled_thread_local as thread_local;

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(true) };
}

/// Returns an index, or `None` if [`be_no_worker`] was called on this thread.
pub(crate) fn worker_index() -> Option<usize> {
    IS_WORKER.with(Cell::get).then_some(0)
}

#[cfg(test)]
pub(crate) fn be_no_worker() {
    IS_WORKER.with(|is_worker| is_worker.set(false));
}

//! The locks and atomics that threads share. In a loom model, loom's types replace them.
//!
//! The option `--cfg tokio_wheel_util_loom` selects loom's types. All state that a model must explore uses this module,
//! because loom tries different orders only for accesses to its own types.

use std::sync::PoisonError;
pub(crate) use std::sync::atomic::Ordering;
#[cfg(not(tokio_wheel_util_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, atomic::AtomicU64};

#[cfg(tokio_wheel_util_loom)]
pub(crate) use super::modelled::*;

/// Locks a mutex, even if it is poisoned.
///
/// User code runs under only one kind of lock: the lock of an idle set's shard. To compare keys, the shard calls the
/// user's `Eq` and `Borrow`. The crate changes nothing before such a call. So a panic of the call leaves the state
/// intact, and other users can continue to use the set.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

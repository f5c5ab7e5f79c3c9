//! The locks and atomics that threads share. In a loom model, loom's types replace them.
//!
//! The option `--cfg tokio_wheel_loom` selects loom's types. All state that a model must explore uses this
//! module:
//!
//! * the locks of shards, and of the place where the driver parks
//! * the armed tick, the counts of entries and registrars, and whether the watch rests
//! * the lock of the driver's notifier, and the end of a timer
//! * the registry of default timers, and the registrar that a thread remembers
//! * a clock that a test sets
//!
//! Loom tries different orders only for accesses to its own types. If threads shared state outside this
//! module, loom would not try all orders of the accesses. Then a model could pass although an order fails.

#[cfg(tokio_wheel_loom)]
pub(crate) use super::modelled::*;
#[cfg(tokio_wheel_loom)]
pub(crate) type Wheel<T> = bounded_wheel::Wheel<T, 3, 4>;
#[cfg(not(tokio_wheel_loom))]
pub(crate) use bounded_wheel::Wheel;
pub(crate) use std::sync::atomic::Ordering;
#[cfg(not(tokio_wheel_loom))]
pub(crate) use std::{
    sync::{
        Mutex as Inner, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize},
    },
    thread_local,
};
#[cfg(not(tokio_wheel_loom))]
pub(crate) use tokio::runtime::worker_index;

use std::sync::{PoisonError, TryLockError};

/// Declares a function that makes a constant. Loom makes its locks only at run time, so there it is an ordinary one.
#[cfg(not(tokio_wheel_loom))]
macro_rules! const_fn {
    ($visibility:vis fn $($function:tt)*) => { $visibility const fn $($function)* };
}
#[cfg(tokio_wheel_loom)]
macro_rules! const_fn {
    ($visibility:vis fn $($function:tt)*) => { $visibility fn $($function)* };
}
pub(crate) use const_fn;

/// A mutex that does not poison.
///
/// No user code runs under a lock, so a panic under a lock is a defect of this crate. If such a panic poisoned the lock,
/// the defect would also harm all later entries.
pub(crate) struct Mutex<T>(Inner<T>);

impl<T> Mutex<T> {
    const_fn! {
        pub(crate) fn new(value: T) -> Self {
            Self(Inner::new(value))
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock, or returns `None` if it is already held.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

//! The lock and the atomic of the concurrent core, exchanged for loom's when it is modelled.
//!
//! Whatever a model has to explore goes through here: the locks of shards, of where the driver parks,
//! of scheduled entries, of leftovers and of the idle set's shards and bell, and the armed tick.
//! Build with `--cfg tokio_wheel_loom` to exchange them. The registry of ambient timers locks here as
//! well, though no model enters it: with `--cfg tokio_wheel_held` every hold is
//! [measured](crate::held).

#[cfg(not(tokio_wheel_loom))]
pub(crate) use std::sync::atomic::AtomicU64;

#[cfg(not(any(tokio_wheel_loom, tokio_wheel_held)))]
pub(crate) use std::sync::MutexGuard;

#[cfg(tokio_wheel_loom)]
pub(crate) use loom::sync::{MutexGuard, atomic::AtomicU64};

#[cfg(tokio_wheel_held)]
pub(crate) use crate::held::MutexGuard;

pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(tokio_wheel_loom))]
use std::sync::Mutex as Inner;

#[cfg(tokio_wheel_loom)]
use loom::sync::Mutex as Inner;

/// A mutex that does not poison.
///
/// Foreign code runs while one is held in one place only: the shards of an idle set compare keys,
/// which calls `Eq` and `Borrow` of the user's. They change nothing before, so a panic there leaves
/// all as it was, and must not end the set for everybody else. Any other panic under a lock is a
/// defect of this crate, and refusing every later timer would only spread it.
pub(crate) struct Mutex<T>(Inner<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    #[cfg_attr(tokio_wheel_held, track_caller)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        #[cfg(tokio_wheel_held)]
        let guard = MutexGuard::new(guard);
        guard
    }
}

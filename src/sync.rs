//! The lock and the atomic of the concurrent core, exchanged for loom's when it is modelled.
//!
//! Only what a model has to explore goes through here: the shard's lock and the driver's armed
//! tick. Build with `--cfg tokio_wheel_loom` to exchange them.

#[cfg(not(tokio_wheel_loom))]
pub(crate) use std::sync::{MutexGuard, atomic::AtomicU64};

#[cfg(tokio_wheel_loom)]
pub(crate) use loom::sync::{MutexGuard, atomic::AtomicU64};

pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(tokio_wheel_loom))]
use std::sync::Mutex as Inner;

#[cfg(tokio_wheel_loom)]
use loom::sync::Mutex as Inner;

/// A mutex that does not poison: no foreign code runs while one is held, so a panic under it is
/// a defect of this crate, and refusing every later timer would only spread it.
pub(crate) struct Mutex<T>(Inner<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

//! Replacements for types that loom cannot observe.

pub(crate) use loom::sync::{Mutex, MutexGuard, atomic::AtomicU64};

use super::sync::Ordering;

/// A value that can be set once.
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: AtomicU64,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self {
            value: std::sync::OnceLock::new(),
            is_set: AtomicU64::new(0),
        }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        match self.is_set.load(Ordering::Acquire) {
            0 => None,
            _ => self.value.get(),
        }
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        self.is_set.fetch_add(1, Ordering::AcqRel);
        self.value.set(value)
    }
}

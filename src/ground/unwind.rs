//! Foreign code that panics, and must not take what runs it with it.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs `foreign` and returns its panic, if any. The caller uses nothing afterwards that
/// `foreign` may have left half done.
pub(crate) fn catch<R>(foreign: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(foreign))
}

/// Runs `foreign` and drops its panic, if any.
pub(crate) fn contain(foreign: impl FnOnce()) {
    if let Err(payload) = catch(foreign) {
        // The payload is foreign as well.
        if let Err(payload) = catch(|| drop(payload)) {
            std::mem::forget(payload);
        }
    }
}

/// Drops what is foreign, and its panic, if any.
pub(crate) fn discard(foreign: impl Sized) {
    contain(|| drop(foreign));
}

/// What `panic!` was called with, as a rule.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    match payload.downcast_ref::<String>() {
        Some(message) => Some(message),
        None => payload.downcast_ref::<&str>().copied(),
    }
}

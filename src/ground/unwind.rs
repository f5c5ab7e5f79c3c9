//! Running user code that may panic, so that a panic does not end the calling task.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs `foreign` and returns its panic as an error.
///
/// After a panic, the caller must not use any state that `foreign` may have left unfinished.
pub(crate) fn catch<R>(foreign: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(foreign))
}

/// Runs `foreign` and drops its panic, if any.
pub(crate) fn contain(foreign: impl FnOnce()) {
    if let Err(payload) = catch(foreign) {
        // The payload is user code too, so its drop may panic. Then the second payload is forgotten.
        if let Err(payload) = catch(|| drop(payload)) {
            std::mem::forget(payload);
        }
    }
}

/// Drops a value of the user. If the drop panics, drops that panic too.
pub(crate) fn discard(foreign: impl Sized) {
    contain(|| drop(foreign));
}

/// Returns the message of a panic, if it was raised with a string, as `panic!` usually does.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    match payload.downcast_ref::<String>() {
        Some(message) => Some(message),
        None => payload.downcast_ref::<&str>().copied(),
    }
}

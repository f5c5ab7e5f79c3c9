//! Runs user code and catches its panics, so that a panic does not end the calling task.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

/// Runs `user_code` and returns its panic as an error.
///
/// After a panic, the caller must not use any state that `user_code` may have left unfinished.
pub(crate) fn catch<R>(user_code: impl FnOnce() -> R) -> thread::Result<R> {
    catch_unwind(AssertUnwindSafe(user_code))
}

/// Runs `user_code`. If it panics, catches the panic and drops the payload.
pub(crate) fn contain(user_code: impl FnOnce()) {
    let Err(payload) = catch(user_code) else {
        return;
    };
    // Dropping the payload runs user code too, and may panic. The payload of this second panic is forgotten.
    if let Err(payload) = catch(|| drop(payload)) {
        mem::forget(payload);
    }
}

/// Drops a value whose `Drop` may run user code. If the drop panics, catches the panic and drops its payload.
pub(crate) fn discard(user_code: impl Sized) {
    contain(|| drop(user_code));
}

/// Returns the message of a panic, or `None` if the payload is not a string. `panic!` usually makes a string.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    match payload.downcast_ref::<String>() {
        Some(message) => Some(message),
        None => payload.downcast_ref::<&str>().copied(),
    }
}

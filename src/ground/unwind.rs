//! Runs user code and catches its panics, so that a panic does not end the calling task.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

/// Runs `user_code` and returns its panic as an error.
///
/// After a panic, the caller must not use any state that `user_code` may have left unfinished.
pub(crate) fn catch<R>(user_code: impl FnOnce() -> R) -> thread::Result<R> {
    catch_unwind(AssertUnwindSafe(user_code))
}

/// Runs `user_code`. If it panics, catches the panic, drops the payload, and returns `false`.
pub(crate) fn contain(user_code: impl FnOnce()) -> bool {
    let Err(payload) = catch(user_code) else {
        return true;
    };
    // Dropping the payload runs user code too, and may panic. The payload of this second panic is forgotten.
    if let Err(payload) = catch(|| drop(payload)) {
        std::mem::forget(payload);
    }
    false
}

/// Drops a value whose `Drop` may run user code. If the drop panics, catches the panic and drops its payload.
pub(crate) fn discard(user_code: impl Sized) {
    contain(|| drop(user_code));
}

/// Returns the message of a panic, or `None` if the payload is not a string. `panic!` usually makes a string.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let string = payload.downcast_ref::<String>().map(String::as_str);
    string.or_else(|| payload.downcast_ref::<&str>().copied())
}

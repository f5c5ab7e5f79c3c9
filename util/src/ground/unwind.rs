//! Runs user code and catches its panics, so that a panic does not end the calling task.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs `user_code`. If it panics, catches the panic and drops the payload.
///
/// After a panic, the caller must not use any state that `user_code` may have left unfinished.
pub(crate) fn contain(user_code: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(user_code)) else {
        return;
    };
    // Dropping the payload runs user code too, and may panic. The payload of this second panic is forgotten.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(payload);
    }
}

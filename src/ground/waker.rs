//! What is done with wakers, which are foreign code.

use std::task::Waker;

use crate::ground::{trace, unwind};

/// Wakes, and outlives a waker that panics.
pub(crate) fn wake(waker: Waker) {
    if let Err(payload) = unwind::catch(|| waker.wake()) {
        trace::waker_panicked(&*payload);
        unwind::discard(payload);
    }
}

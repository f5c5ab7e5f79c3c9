//! Wakes wakers. Wakers are user code.

use std::task::Waker;

use crate::ground::{trace, unwind};

/// Wakes a task, and catches the panic of its waker.
pub(crate) fn wake(waker: Waker) {
    if let Err(payload) = unwind::catch(|| waker.wake()) {
        trace::waker_panicked(&*payload);
        unwind::discard(payload);
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::{panic::resume_unwind, sync::Arc, task::Wake};

    use super::*;

    #[test]
    fn a_waker_that_panics_when_it_is_woken_is_caught() {
        struct Panicking;
        impl Wake for Panicking {
            fn wake(self: Arc<Self>) {
                resume_unwind(Box::new("a waker"));
            }
        }
        wake(Arc::new(Panicking).into());
    }
}

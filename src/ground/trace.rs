//! The events that the crate emits for `tracing`: one function for each event.
//!
//! Without the feature `tracing` the functions do nothing.
//!
//! * A subscriber is user code. The crate calls it while no lock is held, so it may use the timer that emits
//!   the event. If a subscriber itself causes events, the crate drops these events, because they could repeat
//!   forever. For example, a subscriber may start a timer in a runtime that is shutting down. The timer then
//!   ends at once, and its end is another event.
//! * A subscriber that panics harms neither the driver nor an entry. Only the event is lost.
//! * If no subscriber wants an event, the event costs one comparison: of its level with the most verbose
//!   enabled level.
//!
//! Tests: `tests/tracing.rs`.

#[cfg(feature = "tracing")]
use std::cell::Cell;
use std::{any::Any, time::Duration};

#[cfg(feature = "tracing")]
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};

use crate::ground::unwind;

/// Emits an event. The fields of the event are computed only if a subscriber wants the event.
#[cfg(feature = "tracing")]
macro_rules! emit {
    ($level:ident, $($event:tt)*) => {
        emit(tracing::Level::$level, || {
            tracing::event!(target: "tokio_wheel", tracing::Level::$level, $($event)*)
        })
    };
}

#[cfg(not(feature = "tracing"))]
macro_rules! emit {
    ($level:ident, $($field:ident,)* $message:literal) => {
        let _ = ($($field,)*);
    };
}

/// Emits an event after the driver woke up. `by` names the cause.
///
/// The driver wakes up when its alarm goes off. It also wakes up when a thread notifies it: to wake earlier, to
/// do what is left after a turn, or to end.
pub(crate) fn wake_up(by: &'static str) {
    emit!(TRACE, by, "driver woke up");
}

/// Emits an event about a batch, after the entries of the batch were woken. Emits no event if the shard had
/// no work.
///
/// A batch is the work that the driver did during one hold of a shard's lock: it visited `steps` entries and
/// slots, and fired `fired` entries. `interrupted` says whether work is left for the next batch.
pub(crate) fn batch(shard: usize, fired: usize, steps: usize, interrupted: bool) {
    if steps > 0 {
        emit!(TRACE, shard, fired, steps, interrupted, "batch");
    }
}

/// Emits an event after a waker panicked and the crate caught the panic.
pub(crate) fn waker_panicked(payload: &(dyn Any + Send)) {
    let panic = unwind::message(payload);
    emit!(ERROR, panic, "waker panicked");
}

/// Emits an event after the timer shut down. `pending` is the number of entries that the shutdown removed.
pub(crate) fn shutdown(pending: usize) {
    emit!(DEBUG, pending, "timer shut down");
}

/// Emits an event after a block has ended for which the watch had woken another worker.
pub(crate) fn block(length: Duration) {
    let ms = length.as_secs_f64() * 1e3;
    emit!(WARN, ms, "a task blocked a worker");
}

/// Emits an event, once for each thread, after a worker has registered a future with the timer of its own runtime while
/// another runtime was current.
#[cfg(all(debug_assertions, feature = "tracing"))]
pub(crate) fn other_runtime() {
    thread_local! {
        static HAS_WARNED: Cell<bool> = const { Cell::new(false) };
    }
    if !HAS_WARNED.replace(true) {
        emit!(
            WARN,
            "a sleep, timeout or interval uses the timer of the worker's own runtime, although another \
             runtime is current: to use the other runtime's timer, call the methods of its `Timer`"
        );
    }
}

/// Emits an event if some subscriber wants this level, and catches a panic of the subscriber.
///
/// Emits nothing while a subscriber runs on this thread.
#[cfg(feature = "tracing")]
#[inline]
fn emit(level: tracing::Level, event: impl FnOnce()) {
    thread_local! {
        /// Whether a subscriber is running on this thread.
        static EMITTING: Cell<bool> = const { Cell::new(false) };
    }
    if level > STATIC_MAX_LEVEL || level > LevelFilter::current() || EMITTING.replace(true) {
        return;
    }
    unwind::contain(event);
    EMITTING.set(false);
}

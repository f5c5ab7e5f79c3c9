//! What the driver tells `tracing`: one function per event, which without the feature do nothing.
//!
//! * A subscriber is foreign code. It is called with no lock held, and may use the timer that it
//!   is told of. What it does so is not told in turn, or it might never end: a runtime that is
//!   shutting down ends every new timer at once, which is an event.
//! * A subscriber that panics harms neither the driver nor a timer: the event is lost.
//! * An event that nobody wants costs one look at the most verbose level that anybody wants.
//!
//! Tests: `tests/tracing.rs`.

#[cfg(feature = "tracing")]
use std::cell::Cell;
use std::{any::Any, time::Duration};

#[cfg(feature = "tracing")]
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};

use crate::ground::unwind;

/// Emits an event, whose fields are looked at only if it is wanted.
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
    ($level:ident, $($field:ident = $value:expr,)* $message:literal) => {
        if false {
            $(let _ = $value;)*
        }
    };
}

/// One hold of a shard's lock by the driver.
pub(crate) struct Batch {
    /// The number of the shard, from 0.
    pub(crate) shard: usize,
    /// Timers that fired.
    pub(crate) fired: usize,
    /// Timers and slots that were visited.
    pub(crate) steps: usize,
    /// Whether something is left for the next batch.
    pub(crate) interrupted: bool,
    /// Of the timers that fired.
    pub(crate) worst_lateness: Duration,
}

/// The driver woke up: an alarm went off, or it was notified because there is something to do earlier
/// than that or nothing any more.
pub(crate) fn wake_up(by: &'static str) {
    emit!(TRACE, by = by, "driver woke up");
}

/// The timers of a batch were woken. A shard that had nothing to do is not worth an event.
pub(crate) fn batch(batch: &Batch) {
    if batch.steps > 0 {
        emit!(
            TRACE,
            shard = batch.shard,
            fired = batch.fired,
            steps = batch.steps,
            interrupted = batch.interrupted,
            worst_lateness_us = batch.worst_lateness.as_micros() as u64,
            "batch"
        );
    }
}

/// A waker panicked, and its panic was caught.
pub(crate) fn waker_panicked(payload: &(dyn Any + Send)) {
    emit!(ERROR, panic = unwind::message(payload), "waker panicked");
}

/// The timer shut down while as many timers were pending.
pub(crate) fn shutdown(pending: usize) {
    emit!(DEBUG, pending = pending, "timer shut down");
}

/// Emits, if some subscriber may want events of this level, unless on behalf of a subscriber. Outlives
/// a subscriber that panics.
#[cfg(feature = "tracing")]
#[inline]
fn emit(level: tracing::Level, event: impl FnOnce()) {
    thread_local! {
        /// Whether a subscriber is being told on this thread.
        static EMITTING: Cell<bool> = const { Cell::new(false) };
    }
    if level > STATIC_MAX_LEVEL || level > LevelFilter::current() || EMITTING.replace(true) {
        return;
    }
    unwind::contain(event);
    EMITTING.set(false);
}

//! The timer of all connections of a server, and how they all learn of a change at once.
//!
//! Each connection has one entry in this timer, at the earliest instant that may matter to it. A change that
//! brings that instant nearer lets the timer [leap](crate::driver::handle#leaps) by as much. The driver then
//! fires the entries within the leap, and their connections look at their limits. So a change costs the same
//! with one connection and with a million. The wake-ups that follow cost as much as the connections that are due.
//!
//! # Rules
//!
//! 1. A connection reads the [lead](Alarm::lead) first, then what its deadline depends on. It registers the deadline
//!    plus the lead. A thread changes what deadlines depend on before it [leaps](Alarms::leap).
//! 2. No deadline is more than [`FAR`] ahead. So a leap by [`EVERYTHING`] reaches all entries.
//! 3. The lead only grows, and a timer reaches for 292 years. When the lead exceeds [`MOST_LEAD`], the
//!    connections move to a new timer (`hyper::tests::a_timer_with_a_long_lead_is_replaced`). The old timer
//!    leaps, so that they look. `current` is emptied before that leap. A connection reads the lead of its timer
//!    before it compares the timer with `current`. So no connection stays behind.
//! 4. The first connection that is polled builds the timer on its runtime. If that runtime ends, the next
//!    connection that sets its alarm builds another.
//!
//! No lock is held while a timer is built, leaps or is dropped. Tests: `tests/hyper/pressure.rs`,
//! `deadlines_are_exact`, and `tests/hyper/runtimes.rs`.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use crate::{driver::clock, futures::Sleep, ground::sync::Mutex, timer::Timer};

/// The most that a deadline is ahead: a day. A connection without a limit looks once in that time.
pub(super) const FAR: Duration = Duration::from_secs(24 * 3_600);

/// A leap that fires every entry: [`FAR`] and some more, for what ticks round.
pub(super) const EVERYTHING: Duration = Duration::from_secs(25 * 3_600);

/// The lead from which on a timer is replaced: 100 years.
const MOST_LEAD: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// The tick. The limits of connections are seconds and minutes: in ticks of 1/64 ms their entries would
/// cascade once more on their way.
const TICK: Duration = Duration::from_millis(1);

/// The timer of the connections of a server.
pub(super) struct Alarms {
    current: Mutex<Option<Timer>>,
}

impl Alarms {
    pub(super) fn new() -> Self {
        let current = Mutex::new(None);
        Self { current }
    }

    /// Makes all entries that are registered fire earlier by `by`.
    pub(super) fn leap(&self, by: Duration) {
        let Some(timer) = self.current() else {
            return;
        };
        timer.leap(by.min(EVERYTHING));
        if timer.lead() > MOST_LEAD {
            let replaced = self
                .current
                .lock()
                .take_if(|current| current.is_of(timer.core()));
            drop(replaced);
            timer.leap(EVERYTHING);
        }
    }

    fn current(&self) -> Option<Timer> {
        self.current.lock().clone()
    }

    /// Returns the current timer. Builds one on the current runtime, if there is none or its runtime has ended.
    #[track_caller]
    fn current_or_new(&self) -> Timer {
        let is_usable = |timer: &Timer| !timer.is_shutdown();
        if let Some(current) = self.current().filter(is_usable) {
            return current;
        }
        let built = Timer::builder().tick(TICK).build();
        let built = built.expect("the tick is in range");
        let mut current = self.current.lock();
        if let Some(other) = current.clone().filter(is_usable) {
            drop(current);
            return other;
        }
        let replaced = current.replace(built.clone());
        drop(current);
        drop(replaced);
        built
    }

    #[cfg(all(test, not(tokio_wheel_loom)))]
    pub(super) fn timer(&self) -> Option<Timer> {
        self.current()
    }
}

/// The entry of one connection.
pub(super) struct Alarm {
    timer: Timer,
    sleep: Sleep,
    is_set: bool,
    /// Whether the timer had shut down before the alarm was set: its runtime was ending, and made no other timer.
    is_orphaned: bool,
}

impl Alarm {
    /// Returns an alarm that is not set yet.
    #[track_caller]
    pub(super) fn new(alarms: &Alarms) -> Self {
        let timer = alarms.current_or_new();
        let sleep = timer.sleep_until(Instant::now());
        Self {
            timer,
            sleep,
            is_set: false,
            is_orphaned: false,
        }
    }

    /// Returns the lead of the timer, for [`set`](Self::set). If the timer was replaced, moves the alarm to the
    /// new one.
    #[track_caller]
    pub(super) fn lead(&mut self, alarms: &Alarms) -> Duration {
        if self.timer.is_shutdown() {
            *self = Self::new(alarms);
        }
        loop {
            let lead = self.timer.lead();
            let current = alarms.current();
            let is_current = current.is_some_and(|current| current.is_of(self.timer.core()));
            // A runtime that is shutting down makes no timer any more: then the alarm stays pending.
            if is_current || self.timer.is_shutdown() {
                return lead;
            }
            *self = Self::new(alarms);
        }
    }

    /// Sets the alarm for an instant, less the `lead` that was read before.
    pub(super) fn set(&mut self, instant: Instant, lead: Duration) {
        let deadline = clock::saturating_add(instant, lead);
        Pin::new(&mut self.sleep).reset(deadline);
        self.is_set = true;
        self.is_orphaned = self.timer.is_shutdown();
    }

    /// Makes the next poll ready. The entry stays, until the alarm is set again.
    pub(super) fn unset(&mut self) {
        self.is_set = false;
    }

    /// Ready if the alarm is not set, when it fires, and when its timer shuts down. That may be before the instant that it
    /// is set for.
    #[track_caller]
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_set && (self.is_orphaned || !self.timer.is_shutdown()) {
            ready!(self.sleep.poll_elapsed(cx));
        }
        Poll::Ready(())
    }
}

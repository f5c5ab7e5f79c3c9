//! The timer that all connections of a server share.
//!
//! Each connection has one entry in this timer. The deadline of the entry is the earliest instant at which
//! the connection may reach a limit. A shutdown or a higher pressure can make this instant earlier for
//! all connections. The timer then [leaps](crate::driver::lead): its time jumps forward. The driver
//! fires all entries whose deadlines have now passed. The connections of these entries check their limits
//! again.
//!
//! A leap itself costs the same for one connection and for a million. But each entry that fires wakes its
//! connection.
//!
//! # Rules
//!
//! 1. A connection first reads the [lead](Alarm::lead), then computes its deadline. It registers the deadline
//!    plus the lead. A thread that shortens deadlines first changes the values on which the deadlines depend.
//!    Then the thread calls [`leap`](Alarms::leap).
//! 2. No deadline is more than [`FAR`] after the current time. So a leap by [`EVERYTHING`] fires all entries.
//! 3. The lead of a timer only grows, and a timer can represent only 292 years. When the lead exceeds
//!    [`MOST_LEAD`], the connections move to a new timer
//!    (`hyper::tests::a_timer_with_a_long_lead_is_replaced`).
//! 4. A thread that replaces a timer first sets `current` to `None`. Then the thread makes the old timer
//!    leap. The leap wakes each connection, and the connection checks whether its timer was replaced. For
//!    this check, the connection first reads the lead, and then compares its timer with `current`. If
//!    `current` still is the old timer, the leap comes after the connection has read the lead. The leap then
//!    fires the connection's entry. So no connection stays on the old timer.
//! 5. The first poll of a connection builds the timer on the runtime that makes this poll. If this runtime
//!    shuts down, the next connection that sets its alarm builds another timer. On a runtime that is shutting
//!    down, no timer can be built. The connection has no alarm there, and is cut
//!    (`runtimes::a_runtime_may_end_while_a_handler_has_the_processor`).
//!
//! The code holds no lock while it builds a timer, drops a timer, or makes a timer leap. The tests are in
//! `tests/hyper/pressure.rs` and in `tests/hyper/runtimes.rs`. The most important test is
//! `deadlines_are_exact`.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use crate::{driver::clock, error::BuildError, futures::Sleep, ground::sync::Mutex, timer::Timer};

/// The longest time from now to a deadline: one day. A connection without a limit wakes once a day.
pub(super) const FAR: Duration = Duration::from_secs(24 * 3_600);

/// The length of a leap that fires all entries. It is an hour longer than [`FAR`], because deadlines round up
/// to a tick.
pub(super) const EVERYTHING: Duration = Duration::from_secs(25 * 3_600);

/// The longest lead of a timer: 100 years. A timer with a longer lead is replaced.
const MOST_LEAD: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// The tick of the timer. The limits of connections are seconds or minutes long. With the default tick of
/// 1/64 ms, entries with such deadlines would cascade once more than with this tick.
const TICK: Duration = Duration::from_millis(1);

/// The timer that the connections of a server share.
pub(super) struct Alarms {
    /// The timer for new alarms. It is `None` before the first alarm, and after a timer with a long lead was
    /// removed.
    current: Mutex<Option<Timer>>,
}

impl Alarms {
    pub(super) fn new() -> Self {
        let current = Mutex::new(None);
        Self { current }
    }

    /// Makes all registered entries fire earlier. `by` tells how much earlier.
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

    /// Returns the current timer. If there is no current timer, or if it has shut down, the method builds a
    /// new timer on the current runtime. Returns `None` if the current runtime is shutting down.
    #[track_caller]
    fn current_or_new(&self) -> Option<Timer> {
        let is_usable = |timer: &Timer| !timer.is_shutdown();
        if let Some(current) = self.current().filter(is_usable) {
            return Some(current);
        }
        let built = match Timer::builder().tick(TICK).build() {
            Ok(built) => built,
            Err(BuildError::RuntimeShutdown) => return None,
            Err(error) => panic!("{error}"),
        };
        let mut current = self.current.lock();
        if let Some(other) = current.clone().filter(is_usable) {
            drop(current);
            return Some(other);
        }
        let replaced = current.replace(built.clone());
        drop(current);
        drop(replaced);
        Some(built)
    }

    #[cfg(all(test, not(tokio_wheel_loom)))]
    pub(super) fn timer(&self) -> Option<Timer> {
        self.current()
    }
}

/// The alarm of one connection, with its entry in the shared timer.
pub(super) struct Alarm {
    timer: Timer,
    sleep: Sleep,
    is_set: bool,
}

impl Alarm {
    /// Creates an alarm that is not set yet. Returns `None` if the current runtime is shutting down.
    #[track_caller]
    pub(super) fn new(alarms: &Alarms) -> Option<Self> {
        let timer = alarms.current_or_new()?;
        let sleep = timer.sleep_until(Instant::now());
        Some(Self {
            timer,
            sleep,
            is_set: false,
        })
    }

    /// Returns the lead of the alarm's timer. Pass this lead to [`set`](Self::set). If this timer was
    /// replaced or has shut down, the method first moves the alarm to the current timer.
    ///
    /// Returns `None` if the alarm cannot move, because the current runtime is shutting down.
    #[track_caller]
    pub(super) fn lead(&mut self, alarms: &Alarms) -> Option<Duration> {
        loop {
            let lead = self.timer.lead();
            let current = alarms.current();
            let is_current = current.is_some_and(|current| current.is_of(self.timer.core()));
            if is_current && !self.timer.is_shutdown() {
                return Some(lead);
            }
            *self = Self::new(alarms)?;
        }
    }

    /// Sets the alarm for `instant`. The argument `lead` is the result of the latest call of
    /// [`lead`](Self::lead).
    pub(super) fn set(&mut self, instant: Instant, lead: Duration) {
        let deadline = clock::saturating_add(instant, lead);
        Pin::new(&mut self.sleep).reset(deadline);
        self.is_set = true;
    }

    /// Makes the next poll return ready. The entry stays registered until the alarm is set again.
    pub(super) fn unset(&mut self) {
        self.is_set = false;
    }

    /// Polls the alarm. The alarm is ready in each of these cases, even before its instant:
    ///
    /// * The alarm is not set.
    /// * Its entry has fired.
    /// * Its timer has shut down. The runtime of the timer may end during this poll: see
    ///   `runtimes::a_connection_outlives_the_runtime_of_its_timer`.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_set && !self.timer.is_shutdown() {
            ready!(self.sleep.poll_elapsed_or_closed(cx));
        }
        Poll::Ready(())
    }
}

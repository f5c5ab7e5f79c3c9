//! The future that drives a connection under its limits.
//!
//! # States
//!
//! | State    | The alarm is set for the earliest of            | Left through                                                             |
//! |----------|--------------------------------------------------|---------------------------------------------------------------------------|
//! | open     | the age; the idle deadline, or while requests are in flight the soonest that it can be | the connection ends: ended, `Closed`; a limit or the shutdown: graceful |
//! | graceful | the end of the grace                             | the connection ends: ended, with the reason; the grace is over: cut       |
//! | cut      | (dropped)                                        | at once: ended, with the reason and what was in flight                    |
//! | ended    | (dropped)                                        | not at all: another poll panics                                           |
//!
//! # Rules
//!
//! * The connection is polled first, then the alarm. So a request that has arrived by then counts before
//!   the connection is found idle.
//! * The alarm is set when it has fired, and when the state changes. A request sets none
//!   (`tests.rs`, `a_connection_has_one_entry`).
//! * Whether time is up is decided by the clock alone. An alarm that fires early costs a look.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper_util::server::graceful::GracefulConnection;
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::{
    alarms::{Alarm, FAR},
    ended::{Ended, Reason},
    slot::Slot,
};
use crate::driver::clock::saturating_add;

/// How long a connection with requests in flight waits at least before it looks again, however short the idle limit is. A
/// limit of 0 would not wait at all.
const LEAST_WAIT: Duration = Duration::from_millis(10);

pin_project! {
    /// Drives a connection under the limits of its server; made by
    /// [`Lifetime::drive`](super::Lifetime::drive).
    ///
    /// The future resolves to an [`Ended`], when the connection has ended or was dropped because its
    /// [grace](super::Limits::grace) was over.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the connection. What is in flight is lost.
    ///
    /// # Panics
    ///
    /// Panics when it is polled outside of a runtime, on a runtime without time enabled, or after it was ready. Also panics when
    /// it is polled after the runtime has ended on which the first drive of its server was polled.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Drive<C> {
        // `None` once it has ended.
        #[pin]
        connection: Option<C>,
        slot: Slot,
        state: State,
        alarm: Option<Alarm>,
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    /// Until the grace is over.
    Graceful {
        reason: Reason,
        until: Instant,
    },
}

/// What is to be done at an instant.
enum Step {
    /// Nothing before this instant.
    Wait(Instant),
    Act(Act),
}

enum Act {
    Shutdown(Reason),
    Cut(Reason),
}

impl State {
    /// Returns what is to be done at an instant.
    fn step(self, slot: &Slot, now: Instant) -> Step {
        match self {
            Self::Graceful { reason, until } if until <= now => Step::Act(Act::Cut(reason)),
            Self::Graceful { until, .. } => Step::Wait(until),
            Self::Open if slot.shared.is_shut_down() => Step::Act(Act::Shutdown(Reason::Shutdown)),
            Self::Open => open_step(slot, now),
        }
    }
}

fn open_step(slot: &Slot, now: Instant) -> Step {
    let mut next = saturating_add(now, FAR);
    if let Some(max_age) = slot.max_age {
        let end = saturating_add(slot.requests.opened(), max_age);
        if end <= now {
            return Step::Act(Act::Shutdown(Reason::MaxAge));
        }
        next = next.min(end);
    }
    if let Some(idle) = slot.shared.idle() {
        let (in_flight, ended) = slot.requests.in_flight();
        if in_flight > 0 {
            // The last of them has not ended yet.
            return Step::Wait(next.min(saturating_add(now, idle.max(LEAST_WAIT))));
        }
        let end = saturating_add(ended, idle);
        if end <= now {
            return Step::Act(Act::Shutdown(Reason::Idle));
        }
        next = next.min(end);
    }
    Step::Wait(next)
}

impl<C> Drive<C> {
    pub(super) fn new(slot: Slot, connection: C) -> Self {
        Self {
            connection: Some(connection),
            slot,
            state: State::Open,
            alarm: None,
        }
    }
}

impl<C: GracefulConnection> Future for Drive<C> {
    type Output = Ended<C::Error>;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let ended = loop {
            let Some(mut connection) = this.connection.as_mut().as_pin_mut() else {
                panic!("a connection was polled after it has ended");
            };
            if let Poll::Ready(result) = connection.as_mut().poll(cx) {
                let reason = match *this.state {
                    State::Open => Reason::Closed,
                    State::Graceful { reason, .. } => reason,
                };
                let cut = None;
                break Ended {
                    reason,
                    cut,
                    result,
                };
            }
            match ready!(poll_step(this.slot, *this.state, this.alarm, cx)) {
                Act::Shutdown(reason) => {
                    let until = saturating_add(Instant::now(), this.slot.shared.limits.grace);
                    *this.state = State::Graceful { reason, until };
                    connection.graceful_shutdown();
                }
                Act::Cut(reason) => {
                    let (in_flight, _) = this.slot.requests.in_flight();
                    let (cut, result) = (Some(in_flight), Ok(()));
                    break Ended {
                        reason,
                        cut,
                        result,
                    };
                }
            }
        };
        this.connection.set(None);
        *this.alarm = None;
        this.slot.end(&ended);
        Poll::Ready(ended)
    }
}

/// Ready with what is to be done now. While there is nothing to do, the alarm is set, and wakes the task.
#[track_caller]
fn poll_step(
    slot: &Slot,
    state: State,
    alarm: &mut Option<Alarm>,
    cx: &mut Context<'_>,
) -> Poll<Act> {
    let alarms = &slot.shared.alarms;
    let alarm = alarm.get_or_insert_with(|| Alarm::new(alarms));
    while alarm.poll(cx).is_ready() {
        // Before all that the next step depends on: see `alarms`.
        let lead = alarm.lead(alarms);
        let now = Instant::now();
        match state.step(slot, now) {
            Step::Wait(until) => alarm.set(until.min(saturating_add(now, FAR)), lead),
            Step::Act(act) => {
                alarm.unset();
                return Poll::Ready(act);
            }
        }
    }
    Poll::Pending
}

impl<C> fmt::Debug for Drive<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive")
            .field("slot", &self.slot)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

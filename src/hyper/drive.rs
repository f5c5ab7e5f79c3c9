//! The future that drives a connection and keeps its limits.
//!
//! # States
//!
//! | State    | The alarm is set for                   | Event                             | Next state                  |
//! |----------|----------------------------------------|-----------------------------------|-----------------------------|
//! | open     | the age or idle deadline, the earlier  | the connection ends               | ended, `Closed`             |
//! |          |                                        | it reaches a limit, or a shutdown | graceful, with the reason   |
//! | graceful | the end of the grace                   | the connection ends               | ended, with the reason      |
//! |          |                                        | the grace ends                    | ended, with the reason, cut |
//! | ended    | nothing, since the alarm was dropped   | a poll                            | none: the poll panics       |
//!
//! While requests are in flight, the idle deadline is unknown. It is at least the idle limit away, so the alarm is set
//! for that instant.
//!
//! # Rules
//!
//! * A poll polls the connection first, then the alarm. So a request that has arrived counts before the poll
//!   checks whether the connection is idle.
//! * If the task's budget is spent, the connection may not have read a request that has arrived. So the next poll
//!   decides whether the connection is idle (`a_request_counts_though_the_budget_is_spent`).
//! * A poll sets the alarm when it has fired and when the state changes (`hyper::tests::a_connection_has_one_entry`).
//!   If requests were in flight at that time, the first poll after their end sets the alarm again.
//! * The clock alone decides whether a limit is reached. An alarm that fires early costs one check.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper_util::server::graceful::GracefulConnection;
use pin_project_lite::pin_project;
use tokio::{task::coop, time::Instant};

use super::{
    alarms::{Alarm, FAR},
    ended::{Ended, Reason},
    slot::Slot,
};
use crate::driver::clock::saturating_add;

/// The least time after which a connection with requests in flight checks its limits again.
///
/// Otherwise a connection with a very short idle limit would wake too often. The check finds the end of a request
/// that another task drops, because the connection is not polled then.
const LEAST_WAIT: Duration = Duration::from_secs(1);

pin_project! {
    /// Drives a connection and keeps its server's limits.
    ///
    /// [`Lifetime::drive`](super::Lifetime::drive) returns it. The future resolves to an [`Ended`] when the connection
    /// has ended. If the [grace](super::Limits::grace) ends first, the future drops the connection.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the connection. Its requests in flight are lost.
    ///
    /// # Panics
    ///
    /// * Panics if it is polled outside a runtime, or on a runtime without time enabled.
    /// * Panics if it is polled again after it was ready.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Drive<C> {
        // `None` after the end of the connection.
        #[pin]
        connection: Option<C>,
        slot: Slot,
        state: State,
        alarm: Option<Alarm>,
        // Whether requests were in flight when the alarm was set.
        is_busy: bool,
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    /// The graceful shutdown has begun.
    Graceful {
        /// Why it has begun.
        reason: Reason,
        /// The end of the grace.
        until: Instant,
    },
}

/// The next step of a connection at a certain instant.
enum Step {
    /// Wait until this instant.
    Wait(Instant),
    /// Wait until this instant, or until the last request in flight has ended.
    WaitForRequests(Instant),
    Act(Act),
}

enum Act {
    Shutdown(Reason),
    Cut(Reason),
}

impl State {
    /// Returns what the connection must do at an instant.
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
            let soonest = saturating_add(now, idle.max(LEAST_WAIT));
            return Step::WaitForRequests(next.min(soonest));
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
            is_busy: false,
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
                panic!("a `Drive` was polled after its connection had ended");
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
            match ready!(poll_step(
                this.slot,
                *this.state,
                this.alarm,
                this.is_busy,
                cx
            )) {
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

/// Returns the next act of the connection, or sets the alarm if the connection must wait.
#[track_caller]
fn poll_step(
    slot: &Slot,
    state: State,
    alarm: &mut Option<Alarm>,
    is_busy: &mut bool,
    cx: &mut Context<'_>,
) -> Poll<Act> {
    let alarms = &slot.shared.alarms;
    let alarm = alarm.get_or_insert_with(|| Alarm::new(alarms));
    if *is_busy && !slot.requests.is_busy() {
        alarm.unset();
    }
    while alarm.poll(cx).is_ready() {
        // The lead must be read before the values that the next step depends on: rule 1 of `alarms`.
        let lead = alarm.lead(alarms);
        let now = Instant::now();
        match state.step(slot, now) {
            Step::Wait(until) => {
                *is_busy = false;
                alarm.set(until.min(saturating_add(now, FAR)), lead);
            }
            Step::WaitForRequests(until) => {
                *is_busy = true;
                alarm.set(until, lead);
            }
            Step::Act(Act::Shutdown(Reason::Idle)) if !coop::has_budget_remaining() => {
                // The connection may have left a request unread, so another poll decides.
                alarm.unset();
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
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

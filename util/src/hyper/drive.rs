//! The future that drives a connection and enforces its limits.
//!
//! # States
//!
//! | State    | The alarm is set for            | Event                 | Next state                      |
//! |----------|---------------------------------|-----------------------|---------------------------------|
//! | open     | the next deadline (age or idle) | the connection ends   | ended, with `Closed`            |
//! | open     |                                 | a limit is reached    | turning                         |
//! | open     |                                 | the server shuts down | turning                         |
//! | turning  | none: each poll checks          | the connection ends   | ended, with `Closed`            |
//! | turning  |                                 | a request arrives     | open, if the limit was `idle`   |
//! | turning  |                                 | the turns are over    | graceful, with a reason         |
//! | graceful | the end of the grace            | the connection ends   | ended, the same reason          |
//! | graceful |                                 | the grace ends        | ended and cut, the same reason  |
//! | any      |                                 | the runtime shuts down | ended and cut, or dropped      |
//! | ended    | none: the alarm was dropped     | a poll                | none: the poll panics           |
//!
//! While requests are in flight, the idle deadline is unknown, because the idle time has not begun. The
//! connection then checks its limits again after a wait. The wait is as long as the idle limit, but at least
//! [`LEAST_WAIT`]. If the connection reaches its maximum age sooner, the wait ends at this age.
//!
//! # Rules
//!
//! * A poll first polls the connection. This step counts the requests that have arrived. After this step, the
//!   poll checks the alarm and decides whether the connection is idle.
//! * Before a graceful shutdown begins, the runtime's I/O driver turns: see [`Turns`]. Then the connection is
//!   polled again, so that it reads a request that the kernel had already received
//!   (`kernel::a_request_that_the_kernel_has_is_answered`).
//! * If other work of the task has spent the budget, this last poll ignores the budget. Otherwise the connection
//!   would leave the request unread (`idle::a_request_counts_though_the_budget_is_spent`). In all other cases the
//!   poll obeys the budget, because it may run a handler or read from a client that never stops to send
//!   (`tests/hyper/fairness.rs`).
//! * A poll sets the alarm in two cases: the alarm has fired, or the state has changed
//!   (`hyper::tests::a_connection_has_one_entry`). If requests were in flight when the alarm was set, the
//!   first poll after the end of these requests sets the alarm again.
//! * The clock alone decides whether a limit is reached. An alarm that fires too early costs only one check.

use std::{
    fmt,
    future::{Future, poll_fn},
    mem,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper_util::server::graceful::GracefulConnection;
use pin_project_lite::pin_project;
use tokio::{task::coop::unconstrained, time::Instant};

use super::{
    alarms::{Alarm, FAR},
    ended::{Ended, Reason},
    slot::Slot,
    turns::Turns,
};
use crate::{coop::has_budget_remaining, driver::clock::saturating_add};

/// The shortest time after which a connection with requests in flight checks its limits again.
///
/// Without this minimum, a connection with a very short idle limit would wake too often. The checks are
/// necessary because another task may drop a request. Such a drop does not wake the connection, so only a
/// check finds the end of the request.
const LEAST_WAIT: Duration = Duration::from_secs(1);

pin_project! {
    /// Drives a connection and enforces the limits of its server.
    ///
    /// [`Lifetime::drive`](super::Lifetime::drive) returns this future. The future resolves to an [`Ended`]
    /// when the connection has ended. If the [grace](super::Limits::grace) ends first, the future drops the
    /// connection and resolves.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the connection. Its requests in flight are lost.
    ///
    /// # Panics
    ///
    /// * Panics if the future is polled outside a runtime, or on a runtime without time enabled.
    /// * Panics if the future is polled again after it has returned ready.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Drive<C> {
        // Is `None` after the connection has ended.
        #[pin]
        connection: Option<C>,
        slot: Slot,
        state: State,
        alarm: Option<Alarm>,
        // Whether requests were in flight when the alarm was set.
        is_busy: bool,
    }
}

#[derive(Debug)]
enum State {
    Open,
    /// A limit is reached or the server shuts down. The I/O driver turns before the graceful shutdown begins.
    Turning(Turns),
    /// The graceful shutdown has begun.
    Graceful {
        /// Why the graceful shutdown has begun.
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
    /// Returns what the connection must do at the instant `now`.
    fn step(&self, slot: &Slot, now: Instant) -> Step {
        match *self {
            Self::Graceful { reason, until } if until <= now => Step::Act(Act::Cut(reason)),
            Self::Graceful { until, .. } => Step::Wait(until),
            _ if slot.shared.is_shut_down() => Step::Act(Act::Shutdown(Reason::Shutdown)),
            _ => open_step(slot, now),
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
        let mut has_turned = false;
        let had_budget = has_budget_remaining();
        let ended = loop {
            let Some(mut connection) = this.connection.as_mut().as_pin_mut() else {
                panic!("a `Drive` was polled after its connection had ended");
            };
            let polled = if has_turned && !had_budget && !this.slot.requests.is_busy() {
                pin!(unconstrained(poll_fn(|cx| connection.as_mut().poll(cx)))).poll(cx)
            } else {
                connection.as_mut().poll(cx)
            };
            if let Poll::Ready(result) = polled {
                let reason = match *this.state {
                    State::Graceful { reason, .. } => reason,
                    _ => Reason::Closed,
                };
                let cut = None;
                break Ended {
                    reason,
                    cut,
                    result,
                };
            }
            let act = match poll_step(this.slot, this.state, this.alarm, this.is_busy, cx) {
                Poll::Ready(act) => act,
                Poll::Pending => {
                    if let State::Turning(_) = this.state {
                        *this.state = State::Open;
                    }
                    return Poll::Pending;
                }
            };
            match act {
                Act::Shutdown(reason) if mem::take(&mut has_turned) => {
                    let until = saturating_add(Instant::now(), this.slot.shared.limits.grace);
                    *this.state = State::Graceful { reason, until };
                    connection.graceful_shutdown();
                }
                Act::Shutdown(_) => {
                    if let State::Open = this.state {
                        *this.state = State::Turning(Turns::begin());
                    }
                    if let State::Turning(turns) = this.state {
                        ready!(Pin::new(turns).poll(cx));
                    }
                    *this.state = State::Open;
                    has_turned = true;
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

/// Returns the next action of the connection. If the connection must wait, the function sets the alarm and
/// returns pending.
#[track_caller]
fn poll_step(
    slot: &Slot,
    state: &State,
    alarm: &mut Option<Alarm>,
    is_busy: &mut bool,
    cx: &mut Context<'_>,
) -> Poll<Act> {
    let alarms = &slot.shared.alarms;
    if alarm.is_none() {
        *alarm = Alarm::new(alarms);
    }
    let Some(alarm) = alarm else {
        return Poll::Ready(cut_with_runtime(state));
    };
    if *is_busy && !slot.requests.is_busy() {
        alarm.unset();
    }
    while alarm.poll(cx).is_ready() {
        // Rule 1 of `alarms`: read the lead before the values on which the next step depends.
        let Some(lead) = alarm.lead(alarms) else {
            return Poll::Ready(cut_with_runtime(state));
        };
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
            Step::Act(act) => {
                alarm.unset();
                return Poll::Ready(act);
            }
        }
    }
    Poll::Pending
}

/// Returns the action of a connection whose runtime is shutting down. Without an alarm, the connection may wait
/// forever. The runtime drops most connections anyway, but it waits for a thread that blocks on one.
fn cut_with_runtime(state: &State) -> Act {
    Act::Cut(match *state {
        State::Graceful { reason, .. } => reason,
        _ => Reason::Shutdown,
    })
}

impl<C> fmt::Debug for Drive<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive")
            .field("slot", &self.slot)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

//! The future that drives a connection and enforces its limits.
//!
//! # States
//!
//! | State          | Waits for                         | Event                    | Next state                     |
//! |----------------|-----------------------------------|--------------------------|--------------------------------|
//! | open           | the next deadline (age or idle)   | the connection ends      | ended, with `Closed`           |
//! | open           |                                   | a limit is reached       | polling events                 |
//! | open           |                                   | the server shuts down    | polling events                 |
//! | polling events | the event polls of the I/O driver | the connection ends      | ended, with `Closed`           |
//! | polling events |                                   | a request arrives        | open, if the limit was `idle`  |
//! | polling events |                                   | the event polls are over | graceful, with a reason        |
//! | graceful       | the end of the grace              | the connection ends      | ended, the same reason         |
//! | graceful       |                                   | the grace ends           | ended and cut, the same reason |
//! | any            |                                   | the runtime shuts down   | ended and cut, or dropped      |
//!
//! While requests are in flight, the idle deadline is unknown, because the idle time has not begun. The
//! connection then checks its limits again after a wait. The wait is as long as the idle limit, but at least
//! [`LEAST_WAIT`]. If the connection reaches its maximum age sooner, the wait ends at this age.
//!
//! # Rules
//!
//! * A poll first polls the connection. This step counts the requests that have arrived and the responses that are
//!   written. After this step, the poll decides whether the connection is idle.
//! * Before a graceful shutdown begins, the runtime's I/O driver polls for events: see `event_polls`. Then the
//!   connection is polled again, so that it reads a request that the kernel had already received
//!   (`event_polls::a_request_that_the_kernel_has_is_answered`).
//! * If other work of the task has spent the budget, this last poll ignores the budget. Otherwise the connection
//!   would leave the request unread (`drive::a_request_counts_though_the_budget_is_spent`). In all other cases the
//!   poll obeys the budget, because it may run a handler or read from a client that never stops sending
//!   (`drive::a_flood_of_frames_lets_other_tasks_run`).
//! * A poll checks the limits only after an event: [`Recheck`] tells, or the requests that were in flight at the
//!   last check have ended (`recheck::a_connection_has_one_entry`).
//! * The clock alone decides whether a limit is reached. A check that comes too early has no effect.

use std::{
    future::Future,
    mem,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper_util::server::graceful::GracefulConnection;
use pin_project_lite::pin_project;
use tokio::{
    task::coop::{has_budget_remaining, unconstrained},
    time::Instant,
};

use super::{
    connections::ConnectionGuard,
    counted_io::CountedIo,
    ended::{Ended, Reason},
    recheck::Recheck,
    requests::Counted,
};
use crate::limit::saturating_add;

/// The shortest time after which a connection with requests in flight checks its limits again.
///
/// Without this minimum, a connection with a very short idle limit would wake too often. The checks are
/// necessary because another task may drop a request. Such a drop does not wake the connection, so only a
/// check finds the end of the request.
const LEAST_WAIT: Duration = Duration::from_secs(1);

pin_project! {
    /// Drives a connection and enforces the limits of its server.
    ///
    /// [`ConnectionGuard::serve`] returns this future. The future resolves to an [`Ended`] when the connection has
    /// ended. If the [grace](super::Limits::grace) ends first, the future drops the connection and resolves.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the connection. Its requests in flight are lost.
    ///
    /// # Panics
    ///
    /// * Panics if the future is polled outside a runtime, or on a runtime without time enabled.
    /// * Panics if the future is polled again after it has returned ready.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    #[project = Projected]
    pub struct Drive<C> {
        // Is `None` after the connection has ended.
        #[pin]
        connection: Option<C>,
        guard: ConnectionGuard,
        // Why the graceful shutdown has begun, and until when it has time.
        graceful: Option<(Reason, Instant)>,
        recheck: Recheck,
        // Whether requests were in flight at the last check.
        was_busy: bool,
    }
}

/// Returns `deadline`, or `reason` if the deadline has passed.
fn wait_or(now: Instant, deadline: Instant, reason: Reason) -> Result<Instant, Reason> {
    (deadline > now).then_some(deadline).ok_or(reason)
}

impl ConnectionGuard {
    /// Returns a future that serves a connection and enforces the limits of its server.
    ///
    /// `connect` builds hyper's connection from `io` and `service`, which count the requests in flight. Use both as they are: a
    /// request counts as in flight only from when it reaches this `service`, and it ends only when this `io` has been flushed.
    /// Another service or I/O around them would hide that.
    ///
    /// All connections of hyper and of hyper-util's `auto` implement [`GracefulConnection`], except hyper's own HTTP/1 connection
    /// with upgrades. For HTTP/1 upgrades, use `auto` with `http1_only` and `serve_connection_with_upgrades`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
    /// use hyper_util::rt::TokioIo;
    /// use tokio::net::TcpStream;
    /// use tokio_wheel_util::hyper::ConnectionGuard;
    ///
    /// async fn hello(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    ///     Ok(Response::new("hello".to_owned()))
    /// }
    ///
    /// async fn serve(guard: ConnectionGuard, socket: TcpStream) -> hyper::Result<()> {
    ///     let connect = |io, service| http1::Builder::new().serve_connection(io, service);
    ///     guard.serve(TokioIo::new(socket), service_fn(hello), connect).await.into_result()
    /// }
    /// ```
    pub fn serve<I, S, C: GracefulConnection>(
        self,
        io: I,
        service: S,
        connect: impl FnOnce(CountedIo<I>, Counted<S>) -> C,
    ) -> Drive<C> {
        let requests = self.requests.clone();
        let io = CountedIo { io, requests };
        let requests = self.requests.clone();
        let connection = connect(io, Counted { service, requests });
        Drive {
            connection: Some(connection),
            guard: self,
            graceful: None,
            recheck: Recheck::new(),
            was_busy: false,
        }
    }
}

impl<C: GracefulConnection> Future for Drive<C> {
    type Output = Ended<C::Error>;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut has_polled_events = false;
        let had_budget = has_budget_remaining();
        let ended = loop {
            let connection = this.connection.as_mut().as_pin_mut();
            let connection = connection.expect("the connection of a `Drive` has not ended");
            let polled = if has_polled_events && !had_budget && !*this.was_busy {
                pin!(unconstrained(connection)).poll(cx)
            } else {
                connection.poll(cx)
            };
            if let Poll::Ready(result) = polled {
                break Ended::new(this.reason_or(Reason::Closed), None, result);
            }
            let Poll::Ready((reason, has_runtime_ended)) = this.poll_end(cx) else {
                this.recheck.event_polls = None;
                return Poll::Pending;
            };
            // When the runtime ends, it drops most connections, but it waits for a thread that blocks on one.
            if this.graceful.is_some() || has_runtime_ended {
                let in_flight = this.guard.requests.state().count;
                break Ended::new(reason, Some(in_flight), Ok(()));
            }
            if mem::take(&mut has_polled_events) {
                let is_http2 = this.guard.requests.state().is_http2 == Some(true);
                let grace = match reason {
                    // Such a connection waits for the rest of the head.
                    Reason::Header if !is_http2 => Duration::ZERO,
                    _ => this.guard.connections.shared.limits.grace,
                };
                *this.graceful = Some((reason, saturating_add(Instant::now(), grace)));
                let connection = this.connection.as_mut().as_pin_mut();
                connection.map(C::graceful_shutdown);
                continue;
            }
            ready!(this.recheck.poll_events(&this.guard.connections, cx));
            has_polled_events = true;
        };
        this.connection.set(None);
        // A caller may keep a `Drive` that has ended.
        *this.recheck = Recheck::new();
        this.guard.end(Some((ended.reason(), ended.is_cut())));
        Poll::Ready(ended)
    }
}

impl<C> Projected<'_, C> {
    /// Returns why the connection must end, and whether it must end at once because its runtime has ended. Returns pending
    /// if it must wait.
    #[track_caller]
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<(Reason, bool)> {
        let is_busy = self.guard.requests.end_written();
        let is_due = self.recheck.is_due(&self.guard.connections, cx);
        let has_become_idle = *self.was_busy && !is_busy;
        if !is_due && !has_become_idle {
            return Poll::Pending;
        }
        *self.was_busy = is_busy;
        loop {
            match self.next(Instant::now()) {
                Ok(until) => {
                    if ready!(self.recheck.poll_until(until, cx)).is_err() {
                        return Poll::Ready((self.reason_or(Reason::Shutdown), true));
                    }
                }
                Err(reason) => {
                    self.recheck.is_set = false;
                    return Poll::Ready((reason, false));
                }
            }
        }
    }

    /// Returns the instant until which the connection must wait, or why it must end at the instant `now`.
    ///
    /// While requests are in flight, the connection must also check again when they have ended.
    fn next(&self, now: Instant) -> Result<Instant, Reason> {
        if let Some((reason, until)) = *self.graceful {
            return wait_or(now, until, reason);
        }
        let connections = &self.guard.connections;
        if connections.is_shut_down() {
            return Err(Reason::Shutdown);
        }
        let limit = connections.shared.limits.idle.unwrap_or(Duration::MAX);
        let age = wait_or(now, self.guard.max_age, Reason::MaxAge)?;
        let requests = self.guard.requests.state();
        let idle = match requests.count {
            0 => wait_or(now, saturating_add(requests.ended, limit), Reason::Idle)?,
            _ => saturating_add(now, limit.max(LEAST_WAIT)),
        };
        let head = requests.first_head;
        let head = head.map_or(Ok(age), |until| wait_or(now, until, Reason::Header))?;
        Ok(age.min(idle).min(head))
    }

    /// Returns why the graceful shutdown has begun, or `otherwise` if it has not begun.
    fn reason_or(&self, otherwise: Reason) -> Reason {
        self.graceful.map_or(otherwise, |(reason, _)| reason)
    }
}

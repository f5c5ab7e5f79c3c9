//! Wakes the task of a connection when the connection must check its limits again.
//!
//! There are two reasons to check: the next deadline of the connection has passed, or the server shuts down. The first
//! reason has a sleep of the connection. For the second reason, each connection waits for one of a few
//! [`Notify`](tokio::sync::Notify)s.
//!
//! # Rules
//!
//! 1. The shutdown sets its flag and takes the `Notify`s out of the shared state, under one lock. Then it notifies. A
//!    connection begins to wait for a `Notify` under the same lock, and then reads the flag. So it has seen the flag, or
//!    it is woken.
//! 2. A poll reads the flag and asks the sleep. It waits for the `Notify` again only with another waker, because this takes
//!    a lock that all connections share.
//! 3. The runtime may end during a poll. A poll of the sleep then returns an error, and the connection must be cut.

use std::{
    future::Future as _,
    panic::{RefUnwindSafe, UnwindSafe},
    pin::{Pin, pin},
    task::{Context, Poll, Waker, ready},
};

use tokio::{
    sync::{futures::OwnedNotified, oneshot},
    task::coop::unconstrained,
    time::Instant,
};
use tokio_wheel::{Sleep, error::TimerShutdown, sleep_until};

use super::connections::Connections;
use crate::limit::quiet;

/// Wakes the task of one connection.
#[derive(Debug)]
pub(super) struct Recheck {
    sleep: Sleep,
    /// Whether `sleep` waits for the next deadline.
    pub(super) is_set: bool,
    /// Waits for the shutdown. `None` before the first poll, and after the shutdown has begun.
    shutdown: Option<Pin<Box<OwnedNotified>>>,
    /// Waits for event polls, before a graceful shutdown.
    pub(super) event_polls: Option<oneshot::Receiver<()>>,
    /// The waker that `shutdown` and `sleep` wake.
    waker: Waker,
}

// User code never runs while the fields change.
impl UnwindSafe for Recheck {}
impl RefUnwindSafe for Recheck {}

impl Recheck {
    pub(super) fn new() -> Self {
        Self {
            sleep: sleep_until(Instant::now()),
            is_set: false,
            shutdown: None,
            event_polls: None,
            // Differs from the waker of the first poll, so that this poll waits for the shutdown.
            waker: Waker::noop().clone(),
        }
    }

    /// Returns whether the connection must check its limits. It must read them after this call.
    pub(super) fn is_due(&mut self, connections: &Connections, cx: &mut Context<'_>) -> bool {
        let must_learn = self.shutdown.is_some() && connections.is_shut_down();
        if must_learn || !self.waker.will_wake(cx.waker()) {
            self.is_set = false;
            self.waker = cx.waker().clone();
            self.shutdown = connections.next_shutdown().map(Box::pin);
            if let Some(shutdown) = &mut self.shutdown {
                // If it is ready, the flag is set.
                let _ = (shutdown.as_mut()).poll(&mut Context::from_waker(&quiet(cx)));
            }
        }
        !self.is_set || self.sleep.try_poll_elapsed(cx).is_ready()
    }

    /// Waits until the runtime has read what the kernel has received.
    #[track_caller]
    pub(super) fn poll_events(&mut self, connections: &Connections, cx: &Context<'_>) -> Poll<()> {
        let start = || connections.shared.event_polls.wait();
        let wait = self.event_polls.get_or_insert_with(start);
        let polled = pin!(unconstrained(wait)).poll(&mut Context::from_waker(&quiet(cx)));
        let _ended = ready!(polled);
        self.event_polls = None;
        Poll::Ready(())
    }

    /// Waits until `deadline`. Returns an error if the runtime has ended.
    #[track_caller]
    pub(super) fn poll_until(
        &mut self,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TimerShutdown>> {
        self.is_set = true;
        Pin::new(&mut self.sleep).reset(deadline);
        self.sleep.try_poll_elapsed(cx)
    }
}

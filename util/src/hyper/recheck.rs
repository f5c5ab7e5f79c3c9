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
//! 3. A sleep panics if it is polled after the end of its runtime. So a connection first asks the timer, because even
//!    a panic that is caught runs the panic hook, which may end the process. The runtime may end between these two
//!    steps. On a worker, the poll is pending then, and the runtime drops the task. On another thread, the poll panics,
//!    and the connection catches the panic, because it must be cut.

use std::{
    future::Future as _,
    panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker, ready},
};

use tokio::{sync::futures::OwnedNotified, time::Instant};
use tokio_wheel::{Sleep, Timer, sleep_until};

use super::connections::Connections;

/// Wakes the task of one connection.
#[derive(Debug)]
pub(super) struct Recheck {
    /// The default timer of the runtime, which tells whether the runtime has ended.
    timer: Timer,
    sleep: Sleep,
    /// Whether `sleep` waits for the next deadline.
    pub(super) is_set: bool,
    /// Waits for the shutdown. `None` before the first poll, and after the shutdown has begun.
    shutdown: Option<Pin<Box<OwnedNotified>>>,
    /// Waits for event polls, before a graceful shutdown.
    event_polls: Option<Pin<Box<OwnedNotified>>>,
    /// The waker that `shutdown` and `sleep` wake.
    waker: Waker,
}

/// Wakes a task and catches the panic of its waker. Otherwise the panic would end the call that wakes all other
/// connections (`recheck::a_panicking_waker_harms_no_other_connection`).
struct Quiet(Waker);

/// Polls a wait for a [`Notify`](tokio::sync::Notify) that connections share.
fn poll_notified(wait: Pin<&mut OwnedNotified>, cx: &Context<'_>) -> Poll<()> {
    let quiet = Waker::from(Arc::new(Quiet(cx.waker().clone())));
    wait.poll(&mut Context::from_waker(&quiet))
}

impl Wake for Quiet {
    fn wake(self: Arc<Self>) {
        let _caught = catch_unwind(AssertUnwindSafe(|| self.0.wake_by_ref()));
    }
}

// User code never runs while the fields change.
impl UnwindSafe for Recheck {}
impl RefUnwindSafe for Recheck {}

impl Recheck {
    #[track_caller]
    pub(super) fn new() -> Self {
        Self {
            timer: Timer::current(),
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
                let _ = poll_notified(shutdown.as_mut(), cx);
            }
        }
        !self.is_set || self.timer.is_shutdown() || self.sleep.is_elapsed()
    }

    /// Waits until the runtime has read what the kernel has received.
    #[track_caller]
    pub(super) fn poll_events(&mut self, connections: &Connections, cx: &Context<'_>) -> Poll<()> {
        if self.event_polls.is_none() {
            self.event_polls = Some(Box::pin(connections.event_polls().wait()));
        }
        if let Some(wait) = &mut self.event_polls {
            ready!(poll_notified(wait.as_mut(), cx));
        }
        self.forget_events();
        Poll::Ready(())
    }

    /// Ends the wait of [`poll_events`](Self::poll_events), because the connection stays open.
    pub(super) fn forget_events(&mut self) {
        self.event_polls = None;
    }

    /// Returns whether the runtime is shutting down.
    #[track_caller]
    pub(super) fn has_runtime_ended(&mut self) -> bool {
        if self.timer.is_shutdown() {
            // The task may run on another runtime now. On a runtime that shuts down, a new timer ends at once.
            self.timer = Timer::current();
        }
        self.timer.is_shutdown()
    }

    /// Waits until `deadline`. Returns ready if the deadline has passed or the timer has shut down.
    #[track_caller]
    pub(super) fn poll_until(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        self.is_set = true;
        Pin::new(&mut self.sleep).reset(deadline);
        let poll = AssertUnwindSafe(|| self.sleep.poll_elapsed(cx));
        match catch_unwind(poll) {
            Ok(polled) => polled,
            Err(_) if self.timer.is_shutdown() => Poll::Ready(()),
            Err(panic) => resume_unwind(panic),
        }
    }
}

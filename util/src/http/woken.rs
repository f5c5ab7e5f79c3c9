//! `Woken`: wakes the task that reads a body, and records when the inner body woke it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

use tokio::time::Instant;

use crate::coop;

/// Passes the wakes of an inner body to the task that reads the body.
pub(super) struct Woken {
    shared: Arc<Shared>,
    /// The waker of `shared`.
    waker: Waker,
}

struct Shared(Mutex<State>);

struct State {
    /// The waker of the task that has polled the body last. A wake takes it.
    task: Option<Waker>,
    /// The instant of the first wake since the last poll.
    at: Option<Instant>,
    /// Whether the last poll ended without budget, or the inner body woke the reader during this poll.
    pauses: bool,
}

impl Woken {
    pub(super) fn new() -> Self {
        let shared = Arc::new(Shared(Mutex::new(State {
            task: None,
            at: None,
            pauses: false,
        })));
        let waker = Waker::from(Arc::clone(&shared));
        Self { shared, waker }
    }

    /// Returns the instant at which the inner body woke the reader after the last poll, if it did.
    pub(super) fn at(&self) -> Option<Instant> {
        let state = self.shared.lock();
        state.at.filter(|_| !state.pauses)
    }

    /// Polls the inner body. A wake that comes afterwards wakes the task of `cx`, and sets [`at`](Self::at).
    ///
    /// In two cases [`at`](Self::at) ignores the wake, because it only ends a pause in which other tasks run:
    ///
    /// * The poll used up the budget of the task.
    /// * The wake comes during the poll. Another thread seldom wakes at that moment.
    ///
    /// A body that does so at each poll must still reach its limits
    /// (`http::body::a_body_that_wakes_its_reader_in_each_poll_is_cut_off`).
    pub(super) fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        self.shared.prepare(cx.waker());
        let polled = poll(&mut Context::from_waker(&self.waker));
        let mut state = self.shared.lock();
        state.pauses = !coop::has_budget_remaining() || state.at.is_some();
        drop(state);
        polled
    }
}

impl Shared {
    /// Locks the state. No user code runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a waker of the task that polls now, and forgets the last wake.
    fn prepare(&self, waker: &Waker) {
        let mut state = self.lock();
        state.at = None;
        if state
            .task
            .as_ref()
            .is_some_and(|task| task.will_wake(waker))
        {
            return;
        }
        drop(state);
        let clone = waker.clone();
        let replaced = self.lock().task.replace(clone);
        drop(replaced);
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let now = Instant::now();
        let task = {
            let mut state = self.lock();
            state.at.get_or_insert(now);
            state.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl fmt::Debug for Woken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Woken").finish_non_exhaustive()
    }
}

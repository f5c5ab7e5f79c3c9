//! The scheduled tasks that the end of a timer finds waiting.
//!
//! Whoever closes a timer wakes every waker in its shards: a future's, and a scheduled task's
//! entry. That one has to be told apart from one that is woken because it is due. So the closer
//! lets the entries be collected while it closes the shards, and each woken entry asks here:
//!
//! | State      | An entry that is woken           |
//! |------------|----------------------------------|
//! | open       | is due: it starts                |
//! | collecting | is kept for the closer           |
//! | closed     | is due: it starts                |
//!
//! In the last state nothing is left in the shards, so the driver must have taken the entry out
//! before they were closed. While collecting, it may be either, and has not started in any case.
//! So each task starts or is kept, never both, and none is forgotten
//! (`schedule::loom_tests::shutdown_races_fire_and_schedule`, `tests/schedule/accounting.rs`).

use std::sync::Arc;

use super::unstarted::Unstarted;
use crate::sync::Mutex;

/// A scheduled task that the end of its timer found waiting.
pub(crate) trait Leftover: Send + Sync {
    /// Ends the task and gives it back, unless it was cancelled meanwhile.
    fn into_unstarted(self: Arc<Self>) -> Option<Unstarted>;
}

/// Where a timer's closer collects.
pub(crate) struct Leftovers {
    state: Mutex<State>,
}

enum State {
    Open,
    Collecting(Vec<Arc<dyn Leftover>>),
    Closed,
}

impl Leftovers {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State::Open),
        }
    }

    /// Collects the entries that are woken while `close` closes the shards. For the one thread
    /// that closes the timer.
    pub(crate) fn collect_while(&self, close: impl FnOnce()) -> Vec<Arc<dyn Leftover>> {
        *self.state.lock() = State::Collecting(Vec::new());
        close();
        match std::mem::replace(&mut *self.state.lock(), State::Closed) {
            State::Collecting(leftovers) => leftovers,
            State::Open | State::Closed => Vec::new(),
        }
    }

    /// Keeps an entry that was woken, if the timer is being closed, and says whether it did.
    pub(crate) fn keep<E: Leftover + 'static>(&self, entry: &Arc<E>) -> bool {
        match &mut *self.state.lock() {
            State::Collecting(leftovers) => {
                leftovers.push(entry.clone());
                true
            }
            State::Open | State::Closed => false,
        }
    }
}

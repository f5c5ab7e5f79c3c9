//! The state of a timer that its registrations and both halves of its driver share.

use std::sync::{Arc, atomic::AtomicU64};

use tokio::runtime;

use crate::{
    driver::{agenda::Agenda, clock::Clock, drive::Driver, ending::Ending, shard::Shard},
    ground::{
        sync::{AtomicUsize, Ordering, worker_index},
        thread, trace, waker,
    },
};

/// The state of a timer, except its registrars.
///
/// So the number of registrars shows whether a handle or a future can still use the timer.
#[repr(align(128))]
pub(crate) struct Shared {
    pub(crate) agenda: Agenda<Driver>,
    pub(crate) ending: Arc<Ending>,
    pub(crate) shards: Box<[Arc<Shard>]>,
    /// The number of registrars that handles and futures hold. The number changes without a lock when a
    /// registrar is created or dropped.
    pub(crate) registrars: AtomicUsize,
    /// The number of times that the driver was woken. Only the two halves of the driver write this field.
    pub(crate) wakeups: AtomicU64,
    /// A function that runs when the timer has ended, before its shards are closed.
    on_end: fn(&Self),
}

impl Shared {
    pub(crate) fn new(
        runtime: runtime::Id,
        clock: Clock,
        shards: usize,
        on_end: fn(&Self),
    ) -> Self {
        Self {
            agenda: Agenda::new(runtime, clock),
            ending: Ending::new(),
            shards: (0..shards).map(|_| Shard::new()).collect(),
            registrars: AtomicUsize::new(0),
            wakeups: AtomicU64::new(0),
            on_end,
        }
    }

    /// Returns the index of the calling thread's shard.
    ///
    /// The index of a worker determines its shard. For any other thread, the thread's number determines the
    /// shard. So these threads are spread over the shards.
    pub(crate) fn shard_of_thread(&self) -> usize {
        let number = worker_index().unwrap_or_else(thread::number);
        // Each registration comes here, and a division takes longer than a comparison.
        match number < self.shards.len() {
            true => number,
            false => number % self.shards.len(),
        }
    }

    /// Records that the driver was woken. `by` names the reason.
    pub(crate) fn record_wakeup(&self, by: &'static str) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        trace::wake_up(by);
    }

    /// Closes the timer. The driver calls this function when it is dropped.
    ///
    /// From now on, the shards refuse registrations. The function wakes the wakers of all pending entries.
    pub(crate) fn close(&self, has_panicked: bool) {
        self.agenda.close();
        self.ending.begin(has_panicked);
        (self.on_end)(self);
        let mut pending = 0;
        for shard in &self.shards {
            for waker in shard.close() {
                waker::wake(waker);
                pending += 1;
            }
        }
        trace::shutdown(pending);
    }
}

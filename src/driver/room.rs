//! How many tasks a turn of the driver may wake.
//!
//! A worker's own queue has room for [`ROOM`] tasks. If a thread pushes a task to a full queue, tokio moves
//! half of the queue to the queue that all workers share. The tasks that sockets have woken move there too. If
//! the driver woke a whole crowd of expired entries at once, these tasks would wait behind the crowd.
//!
//! So the tasks that a turn wakes, and the tasks in the shared queue, are together at most [`ROOM`]. The rest of
//! the crowd waits in the wheel, however late it is, until the queue has drained. If the worker was parked, its
//! queue is empty, so none of the woken tasks moves to the shared queue, and an idle worker can take each of
//! them (test: `a_task_that_blocks_makes_none_of_those_late_that_are_due_with_it` in
//! `tests/promises/p03_lateness.rs`).
//!
//! # Others keep the queue full
//!
//! On a saturated runtime, the queue may never drain, although the driver wakes nothing. The entries would
//! starve. `tokio::time` would wake them all at once, so that they get their share of the workers. So if each
//! turn of [`PATIENCE`] finds [little](LITTLE) room, the following turn may wake [`FIRST`] tasks, and each turn
//! after it twice as many as the turn before. This ends when a turn finds room.
//!
//! The driver cannot tell its own tasks from other tasks in the queue. It relies on time: between two turns on
//! a busy worker, the worker runs about sixty tasks, and then a crowd has left room for at least [`LITTLE`].
//!
//! Tests: `tests` in this file, and `timer::starved`, in which no entry starves although others keep the queue
//! full.

use std::time::Duration;

use tokio::{
    runtime::{self, RuntimeFlavor, RuntimeMetrics},
    time::Instant,
};

/// The number of tasks that the shared queue may hold after a turn: as many as a worker's own queue holds.
///
/// With 512, another timer was up to 172 ms late beside a crowd, with 256 up to 45 ms (`compare saturated --scene
/// crowd --workers 2 --tasks 50,300`). The storm took equally long with 256, 512 and 1,024.
const ROOM: usize = 256;

/// A turn that finds less room than this has found little room.
pub(crate) const LITTLE: usize = 32;

/// The time for which turns must find little room before a turn exceeds the room.
pub(crate) const PATIENCE: Duration = Duration::from_millis(5);

/// The number of tasks that the first turn may wake that exceeds the room.
const FIRST: usize = 64;

/// The rule, and what it must remember from turn to turn.
pub(crate) struct Room {
    queue: Queue,
    /// The first of the turns since which all turns have found little room.
    full_since: Option<Instant>,
    /// The number of tasks that the last turn was allowed to wake, if it was allowed to exceed the room.
    exceeded: usize,
}

/// The queue that all workers of a runtime share.
enum Queue {
    /// The queue of a current-thread runtime. It has no limit, and each task runs in its turn.
    OfOneThread,
    OfWorkers(RuntimeMetrics),
    /// A queue whose depth is set by a test.
    #[cfg(all(test, not(tokio_wheel_loom)))]
    OfTest(&'static std::sync::atomic::AtomicUsize),
}

impl Room {
    pub(crate) fn new(runtime: &runtime::Handle) -> Self {
        Self::of(match runtime.runtime_flavor() {
            RuntimeFlavor::MultiThread => Queue::OfWorkers(runtime.metrics()),
            _ => Queue::OfOneThread,
        })
    }

    /// Creates a rule that limits no turn.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn unlimited() -> Self {
        Self::of(Queue::OfOneThread)
    }

    fn of(queue: Queue) -> Self {
        Self {
            queue,
            full_since: None,
            exceeded: 0,
        }
    }

    /// Returns the number of tasks that a turn may wake which begins at `now`.
    pub(crate) fn for_turn(&mut self, now: Instant) -> usize {
        let Some(depth) = self.queue.depth() else {
            return usize::MAX;
        };
        let room = ROOM.saturating_sub(depth);
        if room >= LITTLE {
            (self.full_since, self.exceeded) = (None, 0);
            return room;
        }
        let full_since = *self.full_since.get_or_insert(now);
        if now.saturating_duration_since(full_since) < PATIENCE {
            return room;
        }
        self.exceeded = self.exceeded.saturating_mul(2).max(FIRST);
        self.exceeded
    }
}

impl Queue {
    /// Returns the number of tasks in the queue, or `None` if the queue has no limit.
    fn depth(&self) -> Option<usize> {
        match self {
            Self::OfOneThread => None,
            Self::OfWorkers(workers) => Some(workers.global_queue_depth()),
            #[cfg(all(test, not(tokio_wheel_loom)))]
            Self::OfTest(depth) => Some(depth.load(std::sync::atomic::Ordering::Relaxed)),
        }
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// The depth of a queue that others fill. A turn may then wake [`FEW`] tasks.
    pub(crate) const BUSY: usize = ROOM - FEW;

    /// The number of tasks that a turn may wake beside a [busy](BUSY) queue.
    pub(crate) const FEW: usize = 64;

    impl Room {
        /// Returns the rule for a queue whose depth the test sets.
        pub(crate) fn beside(depth: &'static AtomicUsize) -> Self {
            Self::of(Queue::OfTest(depth))
        }
    }

    #[test]
    fn a_turn_wakes_as_many_tasks_as_the_shared_queue_has_room_for() {
        static DEPTH: AtomicUsize = AtomicUsize::new(0);
        let (mut room, now) = (Room::beside(&DEPTH), Instant::now());
        for (depth, wakes) in [
            (0, 256),
            (200, 56),
            (250, 6),
            (256, 0),
            (100_000, 0),
            (0, 256),
        ] {
            DEPTH.store(depth, Relaxed);
            assert_eq!(room.for_turn(now), wakes, "beside {depth} tasks");
        }
    }

    #[test]
    fn turns_wake_more_and_more_while_others_keep_the_queue_full() {
        static DEPTH: AtomicUsize = AtomicUsize::new(ROOM);
        let (mut room, mut now) = (Room::beside(&DEPTH), Instant::now());
        assert_eq!(room.for_turn(now), 0);
        // A queue that has drained in the meantime is not kept full by others.
        DEPTH.store(ROOM - LITTLE, Relaxed);
        assert_eq!(room.for_turn(now + PATIENCE), LITTLE);
        DEPTH.store(ROOM - LITTLE + 1, Relaxed);
        now += 2 * PATIENCE;
        assert_eq!(room.for_turn(now), LITTLE - 1);
        assert_eq!(
            room.for_turn(now + PATIENCE - Duration::from_nanos(1)),
            LITTLE - 1
        );
        now += PATIENCE;
        for wakes in [64, 128, 256, 512, 1_024] {
            DEPTH.fetch_add(wakes, Relaxed);
            assert_eq!(room.for_turn(now), wakes);
        }
        for _ in 0..100 {
            room.for_turn(now);
        }
        assert_eq!(room.for_turn(now), usize::MAX);
        DEPTH.store(0, Relaxed);
        assert_eq!(room.for_turn(now), ROOM);
    }

    #[test]
    fn a_current_thread_runtime_has_no_shared_queue() {
        let rooms = |runtime: runtime::Runtime| {
            let mut room = Room::new(runtime.handle());
            room.for_turn(Instant::now())
        };
        let many = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build();
        assert_eq!(rooms(many.unwrap()), ROOM);
        let one = runtime::Builder::new_current_thread().build();
        assert_eq!(rooms(one.unwrap()), usize::MAX);
    }
}

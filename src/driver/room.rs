//! How many tasks a turn may wake.
//!
//! A worker's own queue has room for [`ROOM`] tasks. If a thread pushes a task to a full queue, tokio moves
//! half of the queue to the queue that all workers share. A busy worker seldom looks at the shared queue, so the
//! tasks in it run late, among them the tasks that sockets have woken. If the driver woke a whole storm of expired
//! entries at once, the tasks of the sockets would wait behind the storm. So a turn has two limits:
//!
//! | entries | a turn wakes at most | if |
//! |---|---|---|
//! | not yet [late](LATE) | [`FEW`] tasks | always |
//! | late | as many tasks as the shared queue has room for: [`ROOM`], less the tasks in the queue, but at least [`LITTLE`] | the runtime is calm |
//! | late | all | the runtime is busy |
//!
//! A runtime is calm if a worker has parked or unparked since the turn before the backlog began. Then the other
//! tasks leave time to spare, so the queue drains, and a limit loses no time. The rest of the storm waits in the
//! wheel, in the order of deadlines. Others may fill the queue as well, for example with a broadcast to thousands of
//! tasks. A few sleeps do not wait for that, because a turn may always wake a [`LITTLE`].
//!
//! If no worker has parked, other tasks keep the workers busy. Then a limit would cost the entries their share of
//! the workers, because `tokio::time` wakes all of them at once. A runtime that was calm becomes busy if all turns
//! within [`PATIENCE`] find [little](LITTLE) room, because then other tasks keep the queue full, and a storm would fire
//! a little at a time. So no entry starves (tests: `timer::starved`).
//!
//! ## What the rule cannot tell
//!
//! * If a storm of tasks runs for more than a third of a millisecond each, the storm itself looks like other tasks,
//!   and fires at once.
//! * If other tasks begin to keep the workers busy while a storm fires, but leave the queue some room, the storm gets
//!   half of the workers or more, and not nearly all of their time as with `tokio::time`.
//! * A task that waits for many sleeps with wakers of their own, as in `FuturesUnordered`, counts as many tasks.
//! * On a current-thread runtime a turn has no limit, because no task can overtake the tasks in the only queue. A
//!   limit would need to know whether the tasks in this queue are the storm's, and tokio does not tell.
//!
//! A turn on a parked worker never fills the worker's queue, so that an idle worker can take each woken task. Test:
//! `a_task_that_blocks_makes_none_of_those_late_that_are_due_with_it` in `tests/promises/p03_lateness.rs`.
//!
//! Tests: `tests` in this file.

use std::time::Duration;

use tokio::{
    runtime::{self, RuntimeFlavor},
    time::Instant,
};

/// The number of tasks of entries that are not late which a turn may wake.
///
/// With 256, the p99 of sleeps beside a busy service was 12 ms instead of 1.2 ms (`compare saturated --scene service
/// --workers 1`).
pub(crate) const FEW: usize = 64;

/// The number of tasks that a turn and the shared queue may hold together: as many as a worker's own queue holds.
///
/// With 512 and 1,024, the round trips of `sockets storm` took equally long.
pub(crate) const ROOM: usize = 256;

/// The number of tasks that a turn may wake in any case. A turn that finds less room than this has found little room.
///
/// A busy worker runs about sixty tasks between two turns. So the queue drains although each turn adds this many, and a
/// storm of short tasks leaves more room.
pub(crate) const LITTLE: usize = 32;

/// The time after which others keep the queue full, if all turns find little room.
///
/// With 5 ms, a storm of tasks that run for 100 µs was taken for others. Without a limit, a storm of 30,000 took four
/// times as long as with `tokio::time` if four workers on two cores began to receive broadcasts at its deadline.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// An entry that waits for this duration after its deadline is late.
pub(crate) const LATE: Duration = Duration::from_millis(5);

/// The rule, and what it must remember from turn to turn.
pub(crate) struct Room {
    /// `None` if there is no shared queue.
    load: Option<Load>,
    /// How often workers had parked or unparked at the last turn.
    parks: u64,
    /// Whether the runtime is calm. Stays true while there is a backlog, unless other tasks keep the queue full.
    is_calm: bool,
    /// The time of the first turn that found little room, if all turns of the backlog since then have found little
    /// room.
    full_since: Option<Instant>,
    /// The number of tasks that the present turn may still wake before they are late, and in all. Consecutive wakers of
    /// one task count as one.
    early: usize,
    all: usize,
}

/// Returns the number of tasks in the shared queue, and how often workers have parked or unparked.
type Load = Box<dyn Fn() -> (usize, u64) + Send>;

impl Room {
    pub(crate) fn new(runtime: &runtime::Handle) -> Self {
        if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Self::of(None);
        }
        let metrics = runtime.metrics();
        Self::of(Some(Box::new(move || {
            let workers = 0..metrics.num_workers();
            // The count of a worker that stays busy does not change.
            let parks = workers.map(|worker| metrics.worker_park_unpark_count(worker));
            (metrics.global_queue_depth(), parks.sum())
        })))
    }

    /// Creates a rule. Without a load, it limits no turn.
    pub(crate) fn of(load: Option<Load>) -> Self {
        let parks = load.as_ref().map_or(0, |load| load().1);
        Self {
            load,
            parks,
            is_calm: false,
            full_since: None,
            early: usize::MAX,
            all: usize::MAX,
        }
    }

    /// Begins a turn at `now`: finds out how many tasks it may wake.
    pub(super) fn begin_turn(&mut self, now: Instant) {
        let Some((depth, parks)) = self.load.as_ref().map(|load| load()) else {
            return (self.early, self.all) = (usize::MAX, usize::MAX);
        };
        self.is_calm |= parks != self.parks;
        self.parks = parks;
        let room = ROOM.saturating_sub(depth);
        if room >= LITTLE {
            self.full_since = None;
        } else if now - *self.full_since.get_or_insert(now) >= PATIENCE {
            self.is_calm = false;
        }
        self.all = match self.is_calm {
            true => room.max(LITTLE),
            false => usize::MAX,
        };
        self.early = FEW.min(self.all);
    }

    pub(super) fn may_wake(&self, is_late: bool) -> bool {
        self.all > 0 && (self.early > 0 || is_late)
    }

    /// Counts a task that the turn wakes.
    pub(super) fn count(&mut self, is_late: bool) {
        self.all = self.all.saturating_sub(1);
        self.early = self.early.saturating_sub((!is_late).into());
    }

    /// Records that a turn has left no expired entry.
    pub(crate) fn backlog_is_over(&mut self) {
        (self.is_calm, self.full_since) = (false, None);
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
pub(crate) mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    };

    use super::*;

    /// A load of other tasks, which a test sets. At first the workers never park, and the queue has room.
    #[derive(Default)]
    pub(crate) struct Others {
        depth: AtomicUsize,
        parks: AtomicU64,
    }

    impl Others {
        pub(crate) fn set_depth(&self, depth: usize) {
            self.depth.store(depth, Relaxed);
        }

        pub(crate) fn park(&self) {
            self.parks.fetch_add(1, Relaxed);
        }

        fn get(&self) -> (usize, u64) {
            (self.depth.load(Relaxed), self.parks.load(Relaxed))
        }
    }

    impl Room {
        pub(crate) fn beside(others: Arc<Others>) -> Self {
            Self::of(Some(Box::new(move || others.get())))
        }
    }

    fn all(room: &mut Room, now: Instant) -> usize {
        room.begin_turn(now);
        assert_eq!(room.early, FEW.min(room.all));
        room.all
    }

    #[test]
    fn a_turn_wakes_as_many_tasks_as_the_queue_of_a_calm_runtime_has_room_for() {
        let others = Arc::new(Others::default());
        let (mut room, now) = (Room::beside(others.clone()), Instant::now());
        assert_eq!(all(&mut room, now), usize::MAX, "no worker has parked");
        others.park();
        // The storm keeps the workers busy, so they do not park any more.
        for (depth, wakes) in [
            (0, 256),
            (200, 56),
            (ROOM - LITTLE, LITTLE),
            (250, LITTLE),
            (100_000, LITTLE),
            (0, 256),
        ] {
            others.set_depth(depth);
            assert_eq!(all(&mut room, now), wakes, "beside {depth} tasks");
        }
        room.backlog_is_over();
        assert_eq!(
            all(&mut room, now),
            usize::MAX,
            "others keep the workers busy"
        );
    }

    #[test]
    fn turns_hold_nothing_back_that_is_late_while_others_keep_the_queue_full() {
        let others = Arc::new(Others::default());
        let (mut room, now) = (Room::beside(others.clone()), Instant::now());
        others.park();
        others.set_depth(ROOM);
        assert_eq!(all(&mut room, now), LITTLE);
        // A queue that has drained in the meantime is not kept full by others.
        others.set_depth(ROOM - LITTLE);
        assert_eq!(all(&mut room, now + PATIENCE), LITTLE);
        others.set_depth(ROOM - LITTLE + 1);
        let now = now + 2 * PATIENCE;
        assert_eq!(all(&mut room, now), LITTLE);
        assert_eq!(
            all(&mut room, now + PATIENCE - Duration::from_nanos(1)),
            LITTLE
        );
        assert_eq!(all(&mut room, now + PATIENCE), usize::MAX);
        // Workers of such a runtime may park now and then.
        others.park();
        assert_eq!(all(&mut room, now + PATIENCE), usize::MAX);

        // The queue that an earlier storm has filled says nothing of the next storm.
        room.backlog_is_over();
        others.park();
        assert_eq!(all(&mut room, now + 3 * PATIENCE), LITTLE);
    }

    #[test]
    fn the_rule_sees_the_workers_of_a_runtime() {
        let many = runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .unwrap();
        let mut room = Room::new(many.handle());
        // A worker that runs a task unparks before, and parks afterwards.
        while all(&mut room, Instant::now()) != ROOM {
            many.block_on(many.spawn(async {})).unwrap();
        }
        let one = runtime::Builder::new_current_thread().build().unwrap();
        let mut room = Room::new(one.handle());
        room.begin_turn(Instant::now());
        assert_eq!(room.early, usize::MAX);
    }
}

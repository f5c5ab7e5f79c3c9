//! A turn of the driver: the work that the driver does at one go.
//!
//! A turn visits one shard after the other: always the shard with the earliest published tick. This tick may
//! belong to an expired entry, to a slot that must cascade, or to an entry that was canceled. A visit takes the
//! lock of the shard once, for at most [`HOLD`] steps. It fires expired entries in the order of their deadlines,
//! and then cascades. While the wheel has a backlog, a quarter of each visit belongs to the cascades, so that a
//! crowd of expired entries cannot stop them. After it has released the lock, the turn wakes the tasks of the
//! entries that have fired.
//!
//! A turn ends when nothing is due, or when it has occupied the worker for about a [millisecond](LENGTH). So
//! lateness depends on the number of expired entries, and not on the number of pending entries (tests:
//! `timer::starved`).
//!
//! # Holding back
//!
//! A worker's own queue has room for 256 tasks. When the queue is full, half of its tasks move to the queue
//! that all workers share. A busy worker seldom looks at the shared queue, so the tasks in it run late. On a
//! busy worker of a multi-thread runtime, a turn therefore wakes at most [`HELD_BACK`] tasks. This protects
//! the woken tasks only while the driver keeps up. So there are three exceptions:
//!
//! * A turn does not hold back entries that are [late](LATE), because that would only make the rest later.
//! * On a worker that was parked, a turn wakes at most [`ROOM`] tasks, because the worker's queue is empty. If
//!   more tasks were woken, the worker could next take one of them from the shared queue, and that task could
//!   block. Then the task that was woken last would wait, because no other worker can take it (test:
//!   `a_task_that_blocks_makes_none_of_those_late_that_are_due_with_it` in `tests/promises/p03_lateness.rs`).
//! * On a current-thread runtime, a turn holds nothing back, because the queue has no limit.
//!
//! Tests: `tests` in this file.

use std::{sync::Arc, task::Waker, time::Duration};

use tokio::runtime::{self, RuntimeFlavor, RuntimeMetrics};

use crate::{
    driver::{
        clock::Clock,
        shard::{Budget, Shard},
    },
    ground::{sync::worker_index, trace, waker},
    wheel::Tick,
};

/// The maximum number of steps that the driver does while it holds the lock of a shard.
///
/// These steps take about 25 µs. A thread may hold the lock for at most 50 µs. In a wheel with very many
/// entries, a step costs two or three cache misses, which take about 0.2 µs.
pub(crate) const HOLD: usize = 128;

/// The time after which a turn ends.
const LENGTH: Duration = Duration::from_millis(1);

/// The number of steps after which a turn ends, even on a clock that stands still, such as a paused clock. In
/// unit tests, turns are short.
pub(crate) const STEPS: usize = if cfg!(test) { 4_096 } else { 16_384 };

/// The number of tasks that a turn may wake on a busy worker.
pub(crate) const HELD_BACK: usize = 64;

/// The number of tasks that a turn may wake on a worker that was parked.
const ROOM: usize = 256;

/// A turn does not hold back an entry that is late by this duration.
const LATE: Duration = Duration::from_millis(5);

/// The state that the driver keeps from turn to turn. One thread at a time takes a turn: see
/// [`parking`](crate::driver::parking).
pub(crate) struct Turn {
    /// The index of the shard at which the search for the next shard begins.
    next_shard: usize,
    /// A buffer for the wakers of entries that fire. A visit fills it under the lock of a shard, and empties
    /// it after it has released the lock.
    expired: Vec<Waker>,
    held_back: HeldBack,
}

/// The threads on which a turn holds tasks back.
enum HeldBack {
    /// No thread, because the runtime is a current-thread runtime.
    Nowhere,
    /// The workers of the runtime with these metrics.
    OnWorkers(RuntimeMetrics),
    #[cfg(all(test, not(tokio_wheel_loom)))]
    Everywhere,
}

impl Turn {
    pub(crate) fn new(runtime: &runtime::Handle) -> Self {
        Self::with(match runtime.runtime_flavor() {
            RuntimeFlavor::MultiThread => HeldBack::OnWorkers(runtime.metrics()),
            _ => HeldBack::Nowhere,
        })
    }

    fn with(held_back: HeldBack) -> Self {
        Self {
            next_shard: 0,
            expired: Vec::with_capacity(HOLD),
            held_back,
        }
    }

    /// Takes a turn. Returns whether an entry has fired.
    pub(crate) fn take(&mut self, clock: &Clock, shards: &[Arc<Shard>]) -> bool {
        let start = clock.present();
        let late = start.checked_sub(LATE);
        let mut budget = Budget {
            now: clock.reached(start),
            order: clock.order(),
            steps: STEPS,
            end: start + LENGTH,
            wakes: self.wakes(),
            late: late.map_or(Tick(0), |late| clock.reached(late)),
            fired: 0,
        };
        while budget.steps > 0 {
            let (shard, published) = earliest(shards, self.next_shard);
            if published > budget.now || !budget.may_fire(published) {
                break;
            }
            self.next_shard = shard + 1;
            self.visit(clock, shards, shard, &mut budget);
        }
        // A turn that holds entries back still cascades.
        for (shard, other) in shards.iter().enumerate() {
            let mut has_cascades = other.published() <= budget.now;
            while has_cascades && budget.steps > 0 {
                has_cascades = self.visit(clock, shards, shard, &mut budget);
            }
        }
        budget.fired > 0
    }

    /// Visits the shard with the index `number`: takes its lock once, and then wakes the tasks of the entries
    /// that have fired. Then reads the clock. Returns whether the shard has entries that must cascade.
    fn visit(
        &mut self,
        clock: &Clock,
        shards: &[Arc<Shard>],
        number: usize,
        budget: &mut Budget,
    ) -> bool {
        let shard = &shards[number];
        let allowed = budget.steps;
        let visited = shard.expire(HOLD, budget, &mut self.expired);
        let fired = self.expired.len();
        self.expired.drain(..).for_each(waker::wake);
        if visited.has_unused {
            shard.free_unused();
        }
        // The event comes after the wakes, so that a slow subscriber delays no entry of the batch.
        let steps = allowed - budget.steps;
        let interrupted = shard.published() <= budget.now;
        trace::batch(number, fired, steps, interrupted);
        let present = clock.present();
        budget.now = clock.reached(present);
        // Each visit costs one additional step, even if it finds nothing to do.
        budget.steps = match present < budget.end {
            true => budget.steps.saturating_sub(1),
            false => 0,
        };
        visited.has_cascades
    }

    /// Returns the number of tasks that the turn may wake before they are late.
    fn wakes(&self) -> usize {
        match &self.held_back {
            HeldBack::Nowhere => usize::MAX,
            HeldBack::OnWorkers(workers) => match worker_index() {
                Some(worker) if is_active(workers, worker) => HELD_BACK,
                _ => ROOM,
            },
            #[cfg(all(test, not(tokio_wheel_loom)))]
            HeldBack::Everywhere => HELD_BACK,
        }
    }
}

/// Returns whether a worker is not parked. A busy worker that looks at its timers does not park.
///
/// tokio increments the count before a worker parks, and again after the worker has looked at its timers.
fn is_active(workers: &RuntimeMetrics, worker: usize) -> bool {
    worker >= workers.num_workers() || workers.worker_park_unpark_count(worker) % 2 == 0
}

/// Returns the index and the published tick of the shard whose published tick is the earliest. Of several
/// such shards, returns the first shard from the index `from` on.
pub(crate) fn earliest(shards: &[Arc<Shard>], from: usize) -> (usize, Tick) {
    let indexes = (from..shards.len()).chain(0..from);
    let published = indexes.map(|shard| (shard, shards[shard].published()));
    let earliest = published.min_by_key(|(_, tick)| *tick);
    earliest.unwrap_or((0, Tick::NEVER))
}

/// Fires all expired entries at once.
#[cfg(feature = "test-util")]
pub(crate) fn expire_now(clock: &Clock, shards: &[Arc<Shard>]) {
    let mut turn = Turn::with(HeldBack::Nowhere);
    while earliest(shards, 0).1 <= clock.now() {
        turn.take(clock, shards);
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::{
        future::{Future, poll_fn},
        pin::pin,
        sync::Mutex,
        task::{Context, Poll, Wake},
    };

    use super::*;
    use crate::driver::{
        clock::{DEFAULT_TICK, manual::Manual},
        limit::Admission,
    };

    impl Turn {
        /// Makes a turn that holds tasks back on every thread.
        pub(crate) fn that_holds_back() -> Self {
            Self::with(HeldBack::Everywhere)
        }
    }

    /// A waker that records how many tasks a turn may wake on the thread that calls the waker.
    struct Recorder {
        turn: Turn,
        wakes: Mutex<Option<usize>>,
        task: Waker,
    }

    impl Wake for Recorder {
        fn wake(self: Arc<Self>) {
            *self.wakes.lock().unwrap() = Some(self.turn.wakes());
            self.task.wake_by_ref();
        }
    }

    /// Returns how many tasks a turn may wake that tokio's time driver starts.
    ///
    /// If `is_busy` is true, the calling task wakes itself again and again, so that its worker does not park.
    async fn wakes_in_the_time_driver(is_busy: bool) -> usize {
        let recorder = Arc::new(Recorder {
            turn: Turn::new(&runtime::Handle::current()),
            wakes: Mutex::new(None),
            task: poll_fn(|cx| Poll::Ready(cx.waker().clone())).await,
        });
        let waker = recorder.clone().into();
        let mut alarm = pin!(tokio::time::sleep(Duration::from_millis(20)));
        let polled = alarm.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        poll_fn(|cx| {
            if let Some(wakes) = *recorder.wakes.lock().unwrap() {
                return Poll::Ready(wakes);
            }
            if is_busy {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    }

    /// Returns how many tasks a turn may wake: on a worker that was parked, on a busy worker, and in a task.
    async fn wakes_in_every_place() -> [usize; 3] {
        [
            wakes_in_the_time_driver(false).await,
            wakes_in_the_time_driver(true).await,
            Turn::new(&runtime::Handle::current()).wakes(),
        ]
    }

    #[test]
    fn a_turn_holds_tasks_back_only_on_busy_workers_of_a_multi_thread_runtime() {
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_time().build().unwrap();
        let wakes = runtime.block_on(runtime.spawn(wakes_in_every_place()));
        assert_eq!(wakes.unwrap(), [ROOM, HELD_BACK, HELD_BACK]);

        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().unwrap();
        let wakes = runtime.block_on(wakes_in_every_place());
        assert_eq!(wakes, [usize::MAX; 3]);
    }

    struct Silent;

    impl Wake for Silent {
        fn wake(self: Arc<Self>) {}
    }

    /// A clock that stands still, and shards with entries of different tasks.
    struct Shards {
        clock: Clock,
        manual: Manual,
        shards: Vec<Arc<Shard>>,
    }

    impl Shards {
        fn new(shards: usize) -> Self {
            let manual = Manual::new(true);
            Self {
                clock: Clock::by_hand(DEFAULT_TICK, manual),
                manual,
                shards: (0..shards).map(|_| Arc::new(Shard::new(None))).collect(),
            }
        }

        /// Registers entries in every shard. Their deadline is `after` the start of the clock.
        fn register(&self, after: Duration, number: usize) {
            let deadline = self.clock.deadline(self.manual.now() + after);
            for shard in &self.shards {
                for _ in 0..number {
                    let waker = Arc::new(Silent).into();
                    let registered = shard.register(None, deadline, waker, Admission::Unlimited);
                    registered.unwrap();
                }
            }
        }

        /// Takes a turn. Returns the number of entries that each shard has fired so far.
        fn take(&self, turn: &mut Turn) -> Vec<usize> {
            turn.take(&self.clock, &self.shards);
            let fired = |shard: &Arc<Shard>| shard.counts().lateness.counts.iter().sum::<u64>();
            let shards = self.shards.iter();
            shards.map(|shard| fired(shard) as usize).collect()
        }
    }

    #[test]
    fn a_turn_on_a_busy_worker_holds_back_tasks_that_are_not_late() {
        const MANY: usize = 1_000;
        let all_due = |mut turn| {
            let shards = Shards::new(1);
            shards.register(LATE, MANY);
            // These entries are late by a tick less than `LATE`.
            shards.register(DEFAULT_TICK, MANY);
            shards.manual.advance(LATE);
            shards.take(&mut turn)
        };
        assert_eq!(all_due(Turn::that_holds_back()), [HELD_BACK]);
        assert_eq!(all_due(Turn::with(HeldBack::Nowhere)), [2 * MANY]);

        let shards = Shards::new(1);
        let mut turn = Turn::that_holds_back();
        shards.register(DEFAULT_TICK, MANY);
        shards.register(2 * DEFAULT_TICK, MANY);
        shards.manual.advance(DEFAULT_TICK + LATE);
        // The entries of the first tick are late.
        assert_eq!(shards.take(&mut turn), [MANY + HELD_BACK]);
        assert_eq!(shards.take(&mut turn), [MANY + 2 * HELD_BACK]);
    }

    #[test]
    fn a_turn_on_a_clock_that_stands_still_ends_and_continues_at_the_next_shard() {
        let shards = Shards::new(3);
        shards.register(DEFAULT_TICK, 4 * STEPS);
        shards.manual.advance(DEFAULT_TICK);
        let mut turn = Turn::with(HeldBack::Nowhere);
        for turns in 1..=4 {
            let fired = shards.take(&mut turn);
            // Each visit of a shard costs one additional step.
            let visits = turns * STEPS.div_ceil(HOLD);
            let sum: usize = fired.iter().sum();
            let steps = turns * STEPS;
            assert!((steps - visits..=steps).contains(&sum), "{fired:?}");
            let (least, most) = (fired.iter().min().unwrap(), fired.iter().max().unwrap());
            assert!(most - least <= HOLD, "{fired:?}");
        }
    }
}

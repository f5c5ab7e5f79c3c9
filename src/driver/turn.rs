//! A turn of the driver: the work that the driver does at one go.
//!
//! A turn visits one shard after the other: always the shard with the earliest published tick. This tick may
//! belong to an expired entry, to a slot that must cascade, or to an entry that was canceled. A visit takes the
//! lock of the shard once, for at most [`HOLD`] steps. It fires expired entries in the order of their deadlines,
//! and then cascades. While the wheel has a backlog, a quarter of each visit belongs to the cascades, so that a
//! crowd of expired entries cannot stop them. After it has released the lock, the turn wakes the tasks of the
//! entries that have fired.
//!
//! A turn ends when nothing is due, when it may wake no more tasks, or when it has occupied the worker for about a [millisecond](LENGTH). So
//! lateness depends on the number of expired entries, and not on the number of pending entries (tests:
//! `timer::starved`).
//!
//! How many tasks a turn may wake is the subject of [`room`](crate::driver::room).
//!
//! Tests: `tests` in this file.

use std::{sync::Arc, time::Duration};

use bounded_wheel::{NEVER, Order, Tick};
use tokio::time::Instant;

use crate::{
    driver::{
        clock::Clock,
        room::{LATE, Room},
        shard::Shard,
        visit::{Budget, Time, Wakers},
    },
    ground::{trace, unwind, waker},
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

/// The state that the driver keeps from turn to turn. One thread at a time takes a turn: see
/// [`parking`](crate::driver::parking).
pub(crate) struct Turn {
    /// The index of the shard at which the search for the next shard begins.
    next_shard: usize,
    wakers: Wakers,
    room: Room,
    /// Whether the clock showed the system's time in the last turn.
    is_real: bool,
}

/// The state of a turn that a thread takes.
struct Progress {
    time: Time,
    budget: Budget,
    /// The instant at which the turn ends.
    end: Instant,
    has_fired: bool,
}

impl Turn {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            next_shard: 0,
            wakers: Wakers::new(HOLD),
            room,
            is_real: true,
        }
    }

    /// Does the work of a turn. Returns whether an entry has fired, and the tick that the clock has reached.
    pub(crate) fn run(&mut self, clock: &Clock, shards: &[Arc<Shard>]) -> (bool, Tick) {
        let (start, is_real) = clock.look(self.is_real);
        self.is_real = is_real;
        let late = start.checked_sub(LATE).filter(|_| is_real);
        let mut progress = Progress {
            time: Time {
                now: clock.reached(start),
                late_until: late.map_or(0, |late| clock.reached(late)),
                // Tests with a paused clock rely on the strict order, even when the clock jumps ahead. There the
                // strict order makes no entry late, because the clock stands still while a task runs.
                order: match is_real {
                    true => Order::DueFirst,
                    false => Order::Strict,
                },
            },
            budget: Budget {
                steps: STEPS,
                wakes: self.room.for_turn(start),
            },
            end: start + LENGTH,
            has_fired: false,
        };
        while progress.budget.steps > 0 {
            let (shard, published) = earliest(shards, self.next_shard);
            let Time {
                now, late_until, ..
            } = progress.time;
            if published > now || !progress.budget.wakes.is_left(published <= late_until) {
                break;
            }
            self.next_shard = shard + 1;
            self.visit(clock, shards, shard, &mut progress);
        }
        // A turn that may not wake any more tasks still cascades.
        for (shard, other) in shards.iter().enumerate() {
            let mut has_work = other.published() <= progress.time.now;
            while has_work && progress.budget.steps > 0 {
                has_work = self.visit(clock, shards, shard, &mut progress);
            }
        }
        if next_tick(shards) > progress.time.now {
            self.room.backlog_is_over();
        }
        (progress.has_fired, progress.time.now)
    }

    /// Visits the shard with the index `number`: takes its lock once, and then wakes the tasks of the entries
    /// that have fired. Then reads the clock. Returns whether the shard has entries that must cascade.
    fn visit(
        &mut self,
        clock: &Clock,
        shards: &[Arc<Shard>],
        number: usize,
        progress: &mut Progress,
    ) -> bool {
        let shard = &shards[number];
        let Progress { time, budget, .. } = progress;
        let allowed = budget.steps;
        let visited = shard.visit(time, HOLD, budget, &mut self.wakers);
        let fired = self.wakers.expired.len();
        self.wakers.expired.drain(..).for_each(waker::wake);
        self.wakers.unused.drain(..).for_each(unwind::discard);
        if visited.has_unused {
            shard.free_unused();
        }
        // The event comes after the wakes, so that a slow subscriber delays no entry of the batch.
        let steps = allowed - budget.steps;
        let interrupted = shard.published() <= time.now;
        trace::batch(number, fired, steps, interrupted);
        // Each visit costs one additional step, even if it finds nothing to do.
        budget.steps = budget.steps.saturating_sub(1);
        // A paused clock stands still.
        if time.order == Order::DueFirst {
            let present = clock.present();
            time.now = clock.reached(present);
            if present >= progress.end {
                budget.steps = 0;
            }
        }
        progress.has_fired |= fired > 0;
        visited.has_cascades
    }
}

/// Returns the earliest published tick of all shards.
pub(crate) fn next_tick(shards: &[Arc<Shard>]) -> Tick {
    earliest(shards, 0).1
}

/// Returns the index and the published tick of the shard whose published tick is the earliest. Of several
/// such shards, returns the first shard from the index `from` on.
fn earliest(shards: &[Arc<Shard>], from: usize) -> (usize, Tick) {
    let indexes = (from..shards.len()).chain(0..from);
    let published = indexes.map(|shard| (shard, shards[shard].published()));
    let earliest = published.min_by_key(|(_, tick)| *tick);
    earliest.unwrap_or((0, NEVER))
}

/// Fires all expired entries at once.
#[cfg(feature = "test-util")]
pub(crate) fn expire_now(clock: &Clock, shards: &[Arc<Shard>]) {
    let mut turn = Turn::new(Room::unlimited());
    while next_tick(shards) <= clock.now() {
        turn.run(clock, shards);
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::task::Wake;

    use super::*;
    use crate::driver::{
        clock::{DEFAULT_TICK, manual::Manual},
        room::{FEW, ROOM, tests::Others},
    };

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
                shards: (0..shards).map(|_| Shard::new()).collect(),
            }
        }

        /// Registers entries in every shard. Their deadline is `after` the start of the clock.
        fn register(&self, after: Duration, number: usize) {
            let deadline = self.clock.deadline(self.manual.now() + after);
            for shard in &self.shards {
                for _ in 0..number {
                    let waker = Arc::new(Silent).into();
                    let registered = shard.register(None, deadline, waker);
                    registered.unwrap();
                }
            }
        }

        /// Takes a turn. Returns the number of entries that each shard has fired so far.
        fn take(&self, turn: &mut Turn) -> Vec<usize> {
            turn.run(&self.clock, &self.shards);
            let fired = |shard: &Arc<Shard>| shard.counts().lateness.counts.iter().sum::<u64>();
            let shards = self.shards.iter();
            shards.map(|shard| fired(shard) as usize).collect()
        }
    }

    #[test]
    fn a_turn_wakes_few_tasks_that_are_not_late() {
        const MANY: usize = 1_000;
        let others = Arc::new(Others::default());
        let shards = Shards::new(1);
        let mut turn = Turn::new(Room::beside(others.clone()));
        shards.register(DEFAULT_TICK, MANY);
        shards.register(2 * DEFAULT_TICK, MANY);
        shards.manual.advance(DEFAULT_TICK + LATE);
        // The entries of the first tick are late.
        assert_eq!(shards.take(&mut turn), [MANY + FEW]);
        assert_eq!(shards.take(&mut turn), [MANY + 2 * FEW]);
        assert_eq!(shards.take(&mut Turn::new(Room::unlimited())), [2 * MANY]);
    }

    #[test]
    fn a_turn_on_a_calm_runtime_leaves_room_however_late_the_entries_are() {
        const MANY: usize = 1_000;
        let others = Arc::new(Others::default());
        let shards = Shards::new(1);
        let mut turn = Turn::new(Room::beside(others.clone()));
        shards.register(DEFAULT_TICK, MANY);
        shards.manual.advance(Duration::from_secs(10));
        others.park();
        for turns in 1..=3 {
            assert_eq!(shards.take(&mut turn), [turns * ROOM]);
        }
        assert_eq!(shards.take(&mut turn), [MANY]);
    }

    #[test]
    fn a_turn_on_a_clock_that_stands_still_ends_and_continues_at_the_next_shard() {
        let shards = Shards::new(3);
        shards.register(DEFAULT_TICK, 4 * STEPS);
        shards.manual.advance(DEFAULT_TICK);
        let mut turn = Turn::new(Room::unlimited());
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

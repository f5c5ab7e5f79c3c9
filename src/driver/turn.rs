//! The driver, and a turn of it: it visits the shards that have something due.
//!
//! A turn visits one shard after the other: always the shard with the earliest published tick. This tick may
//! belong to an expired entry, to a slot that must cascade, or to an entry that was canceled. A visit takes the
//! lock of the shard once. It fires expired entries in the order of their deadlines, and then cascades. While the
//! wheel has a backlog, a part of each visit belongs to the cascades, so that a storm of expired entries cannot stop
//! them. After it has released the lock, the turn wakes the tasks of the entries that have fired.
//!
//! A turn ends when nothing is due, when it may wake no more tasks ([`room`](super::room)), or when it has occupied the
//! worker for about a [millisecond](LENGTH). So lateness depends on the number of expired entries, and not on the number of
//! pending entries (tests: `timer::starved`).
//!
//! Tests: `tests` in this file.

use std::{sync::Arc, task::Waker, time::Duration};

use bounded_wheel::{NEVER, Order, Tick};
use tokio::time::Instant;

use crate::{
    driver::{
        clock::Clock,
        entry::Keepers,
        room::{LATE, Room},
        shard::Shard,
    },
    ground::{trace, unwind, wake},
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

/// The state of the driver between two turns.
pub(crate) struct Driver {
    /// The index of the shard at which the search for the next shard begins.
    pub(crate) next_shard: usize,
    pub(crate) room: Room,
    /// The wakers of entries that have fired. A visit of a shard fills both buffers under the lock, and the turn empties
    /// them afterwards.
    pub(crate) expired: Vec<Waker>,
    /// The wakers of [spare entries](super::entry), which the turn drops.
    pub(crate) unused: Vec<Waker>,
}

impl Driver {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            next_shard: 0,
            room,
            expired: Vec::with_capacity(HOLD),
            unused: Vec::with_capacity(Keepers::MAX_SPARE),
        }
    }
}

/// A turn: the time, and the work that it may still do.
pub(crate) struct Turn<'a> {
    clock: &'a Clock,
    pub(crate) driver: &'a mut Driver,
    /// The tick that the clock has reached.
    pub(crate) now: Tick,
    /// An entry with this deadline or an earlier deadline is late.
    late_until: Tick,
    pub(crate) order: Order,
    /// The number of steps that the turn may still do. A step looks at an entry or a slot.
    pub(crate) steps: usize,
    /// The instant at which the turn ends.
    end: Instant,
    pub(crate) has_fired: bool,
}

impl<'a> Turn<'a> {
    pub(crate) fn begin(clock: &'a Clock, driver: &'a mut Driver) -> Self {
        let (start, is_real) = clock.look();
        let late = start.checked_sub(LATE).filter(|_| is_real);
        driver.room.begin_turn(start);
        Self {
            clock,
            driver,
            now: clock.reached(start),
            late_until: late.map_or(0, |late| clock.reached(late)),
            // Tests with a paused clock rely on the strict order, even when the clock jumps ahead. There the
            // strict order makes no entry late, because the clock stands still while a task runs.
            order: if is_real {
                Order::DueFirst
            } else {
                Order::Strict
            },
            steps: STEPS,
            end: start + LENGTH,
            has_fired: false,
        }
    }

    /// Returns whether the turn may wake another task, whose entry has this deadline.
    pub(crate) fn may_wake(&self, deadline: Tick) -> bool {
        self.driver.room.may_wake(deadline <= self.late_until)
    }

    /// Takes the waker of an entry that fires.
    pub(crate) fn collect(&mut self, deadline: Tick, waker: Waker) {
        let Driver { expired, room, .. } = &mut *self.driver;
        if !expired.last().is_some_and(|last| last.will_wake(&waker)) {
            room.count(deadline <= self.late_until);
        }
        expired.push(waker);
    }

    /// Wakes the tasks of the entries that have fired, and reads the clock. Returns the number of these entries.
    ///
    /// Costs one step, so that visits which find nothing to do come to an end as well.
    pub(crate) fn wake(&mut self) -> usize {
        let Driver {
            expired, unused, ..
        } = &mut *self.driver;
        let fired = expired.len();
        self.has_fired |= fired > 0;
        expired.drain(..).for_each(wake::wake);
        unused.drain(..).for_each(unwind::discard);
        self.steps = self.steps.saturating_sub(1);
        // A paused clock stands still.
        if self.order == Order::DueFirst {
            let present = self.clock.present();
            self.now = self.clock.reached(present);
            if present >= self.end {
                self.steps = 0;
            }
        }
        fired
    }
}

impl Driver {
    /// Fires the entries that have expired, as far as a turn may.
    pub(crate) fn fire_expired(&mut self, clock: &Clock, shards: &[Arc<Shard>]) {
        let mut turn = Turn::begin(clock, self);
        while turn.steps > 0 {
            let (shard, published) = earliest(shards, turn.driver.next_shard);
            if published > turn.now || !turn.may_wake(published) {
                break;
            }
            turn.driver.next_shard = shard + 1;
            visit_and_wake(&mut turn, shards, shard);
        }
        // A turn that may not wake any more tasks still cascades.
        for (shard, other) in shards.iter().enumerate() {
            let mut has_work = other.published.tick() <= turn.now;
            while has_work && turn.steps > 0 {
                has_work = visit_and_wake(&mut turn, shards, shard);
            }
        }
        let (now, has_fired) = (turn.now, turn.has_fired);
        if next_tick(shards) > now {
            self.room.backlog_is_over();
        }
        if !has_fired {
            // The turn has visited shards only for canceled entries. Other shards may also publish their ticks.
            correct(shards);
        }
    }
}

/// Visits the shard with the index `number`, and wakes the tasks of the entries that have fired. Returns whether the shard
/// has entries that must cascade.
fn visit_and_wake(turn: &mut Turn<'_>, shards: &[Arc<Shard>], number: usize) -> bool {
    let (allowed, now) = (turn.steps, turn.now);
    let has_cascades = shards[number].visit(turn, HOLD);
    let steps = allowed - turn.steps;
    let fired = turn.wake();
    // The event comes after the wakes, so that a slow subscriber delays no entry of the batch.
    let interrupted = shards[number].published.tick() <= now;
    trace::batch(number, fired, steps, interrupted);
    has_cascades
}

/// Publishes the ticks of shards anew, which are later where cancellations have left earlier ones.
///
/// Skips a shard if the corrected tick of another shard is equal or earlier. Test:
/// `timer::tests::canceled_timers_wake_the_driver_once`.
fn correct(shards: &[Arc<Shard>]) {
    let mut least = NEVER;
    for shard in shards {
        if shard.published.tick() < least {
            shard.correct();
            least = least.min(shard.published.tick());
        }
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
    let published = indexes.map(|shard| (shard, shards[shard].published.tick()));
    let earliest = published.min_by_key(|(_, tick)| *tick);
    earliest.unwrap_or((0, NEVER))
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::{
        task::{Wake, Waker},
        time::Duration,
    };

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
                    let waker = Waker::from(Arc::new(Silent));
                    let registered = shard.register(None, deadline, waker.into(), drop);
                    registered.unwrap();
                }
            }
        }

        /// Takes a turn. Returns the number of entries that each shard has fired so far.
        fn take(&self, driver: &mut Driver) -> Vec<usize> {
            driver.fire_expired(&self.clock, &self.shards);
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
        let mut driver = Driver::new(Room::beside(others.clone()));
        shards.register(DEFAULT_TICK, MANY);
        shards.register(2 * DEFAULT_TICK, MANY);
        shards.manual.advance(DEFAULT_TICK + LATE);
        // The entries of the first tick are late.
        assert_eq!(shards.take(&mut driver), [MANY + FEW]);
        assert_eq!(shards.take(&mut driver), [MANY + 2 * FEW]);
        assert_eq!(shards.take(&mut Driver::new(Room::of(None))), [2 * MANY]);
    }

    #[test]
    fn a_turn_on_a_calm_runtime_leaves_room_however_late_the_entries_are() {
        const MANY: usize = 1_000;
        let others = Arc::new(Others::default());
        let shards = Shards::new(1);
        let mut driver = Driver::new(Room::beside(others.clone()));
        shards.register(DEFAULT_TICK, MANY);
        shards.manual.advance(Duration::from_secs(10));
        others.park();
        for turns in 1..=3 {
            assert_eq!(shards.take(&mut driver), [turns * ROOM]);
        }
        assert_eq!(shards.take(&mut driver), [MANY]);
    }

    #[test]
    fn a_turn_on_a_clock_that_stands_still_ends_and_continues_at_the_next_shard() {
        let shards = Shards::new(3);
        shards.register(DEFAULT_TICK, 4 * STEPS);
        shards.manual.advance(DEFAULT_TICK);
        let mut driver = Driver::new(Room::of(None));
        for turns in 1..=4 {
            let fired = shards.take(&mut driver);
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

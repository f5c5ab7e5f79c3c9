//! What the driver does in a turn: it visits the shards that have something due.
//!
//! A turn visits one shard after the other: always the shard with the earliest published tick. This tick may
//! belong to an expired entry, to a slot that must cascade, or to an entry that was canceled. A visit takes the
//! lock of the shard once. It fires expired entries in the order of their deadlines, and then cascades. While the
//! wheel has a backlog, a part of each visit belongs to the cascades, so that a storm of expired entries cannot stop
//! them. After it has released the lock, the turn wakes the tasks of the entries that have fired.
//!
//! Tests: `tests` in this file.

use std::sync::Arc;

use bounded_wheel::{NEVER, Tick};

use crate::{
    driver::{
        clock::Clock,
        shard::Shard,
        turn::{Driver, HOLD, Turn},
    },
    ground::trace,
};

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

/// Publishes new ticks for the shards whose ticks are too early because entries were canceled.
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
        room::{FEW, LATE, ROOM, Room, tests::Others},
        turn::STEPS,
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

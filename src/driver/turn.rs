//! The driver, and how much it may do in a turn.
//!
//! A turn ends when nothing is due, when it may wake no more tasks ([`room`](super::room)), or when it has occupied the
//! worker for about a [millisecond](LENGTH). So lateness depends on the number of expired entries, and not on the number of
//! pending entries (tests: `timer::starved`).

use std::{task::Waker, time::Duration};

use bounded_wheel::{Order, Tick};
use tokio::time::Instant;

use crate::{
    driver::{
        clock::Clock,
        entry::Keepers,
        room::{LATE, Room},
    },
    ground::{unwind, wake},
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

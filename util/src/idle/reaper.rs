//! The stream that returns expired keys. It works on one tick after another. For each tick, it
//! visits one shard after another.
//!
//! | State   | The sweep     | The armed tick                                       | The state ends       |
//! |---------|---------------|------------------------------------------------------|----------------------|
//! | working | is at a shard | has passed                                           | after the last shard |
//! | looking | has ended     | never                                                | within the same poll |
//! | waiting | has ended     | is the alarm's tick, or an earlier tick from a touch | at the armed tick    |
//!
//! Invariants:
//!
//! * While a [sweep](super::sweep) lasts, the armed tick has passed. So no touch wakes a working
//!   reaper (`not_while_it_works`).
//! * A key leaves its shard only in the poll that returns it. So a dropped future loses no key
//!   (`keys_come_out_as_in_the_model`).
//! * A poll makes at most [`STEPS`] steps and then yields (`tasks_that_yield_have_their_turns`).
//! * The reaper closes all shards before it drops the first key
//!   (`keys_may_use_the_set_when_the_reaper_is_dropped`).
//!
//! # A shed
//!
//! A shed returns keys before their deadlines, beginning with the earliest deadline. It works sweep by
//! sweep too, but never waits for the clock between two sweeps. So it advances the wheels to ticks that
//! the clock has not reached. A thread may then register an entry with a tick that the wheel has passed.
//! The shed has [overtaken](super::shard) such an entry.
//!
//! * A shed uses its own sweeps. The reaper's sweep never reaches a tick that the clock has not
//!   reached (`keys_come_out_as_in_the_model`).
//! * Each poll looks for the earliest tick and begins a new sweep. Otherwise a key that a task has
//!   touched since the last poll could be earlier than the tick of the sweep
//!   (`keys_come_out_as_in_the_model`).
//! * A poll makes at most [`STEPS`] steps, too (`a_shed_of_touched_keys_takes_turns`).

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{shards::Shards, sweep::Sweep};
use crate::{
    ground::{give_way::Yields, tick_sleep::TickSleep},
    limit::Starved,
};
use bounded_wheel::NEVER;
use futures_core::Stream;
use tokio::task::coop::RestoreOnPending;

/// The maximum number of steps in one poll. These steps take at most a millisecond.
///
/// A visit to a shard is a step. A step of a wheel, together with the lookup of the key, is also
/// one step. In a very large set, a lookup misses the caches. On a busy runtime, milliseconds may
/// pass before the next poll. So a poll should do as much work as this limit allows.
const STEPS: usize = 2_048;

/// Removes and returns the expired keys of an [`IdleSet`](super::IdleSet).
///
/// `Reaper` implements [`Stream`]. Its method [`reap`](Self::reap) works without `StreamExt`. The
/// stream is pending while no key is expired, even if the set is empty. It ends when the set is
/// empty and its last handle is dropped. A key never expires if its timeout is too long for any
/// clock, such as [`Duration::MAX`](tokio_wheel::Duration::MAX). The stream does not end while the set
/// contains such a key.
///
/// Keys stay in the set until the reaper returns them. If no task polls the reaper, the set grows.
///
/// When the reaper is dropped, it closes the set and drops its keys. Later touches return
/// [`Touched::Closed`](super::Touched::Closed).
///
/// # Examples
///
/// ```
/// use tokio_stream::StreamExt;
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::idle::IdleSet;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let (set, reaper) = IdleSet::new(Duration::from_secs(30));
/// set.touch_with_timeout("late", Duration::from_secs(60));
/// set.touch("soon");
/// drop(set);
/// assert_eq!(reaper.collect::<Vec<_>>().await, ["soon", "late"]);
/// # }
/// ```
#[must_use = "a reaper does nothing unless it is polled, and closes its set when it is dropped"]
pub struct Reaper<K> {
    pub(super) shards: Arc<Shards<K>>,
    alarm: TickSleep,
    sweep: Sweep,
    yields: Yields,
    starved: Starved,
}

impl<K> Reaper<K> {
    pub(super) fn new(shards: Arc<Shards<K>>, alarm: TickSleep) -> Self {
        Self {
            shards,
            alarm,
            sweep: Sweep::default(),
            yields: Yields::default(),
            starved: Starved::new(),
        }
    }

    /// Waits for the next expired key, removes it and returns it.
    ///
    /// Returns `None` when the set is empty and its last handle is dropped.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it is ready, no key is lost.
    ///
    /// # Panics
    ///
    /// The future panics when [`poll_reap`](Self::poll_reap) panics.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let (set, mut reaper) = IdleSet::new(Duration::from_secs(30));
    /// set.touch(&7);
    /// assert_eq!(reaper.reap().await, Some(7));
    /// assert!(start.elapsed() >= Duration::from_secs(30));
    /// assert!(set.is_empty());
    /// # }
    /// ```
    pub async fn reap(&mut self) -> Option<K> {
        poll_fn(|cx| self.poll_reap(cx)).await
    }

    /// Polls for the next expired key.
    ///
    /// Returns `None` if the set is empty and its last handle is dropped. If the method returns
    /// `Pending`, each of these events wakes the task of the most recent call:
    ///
    /// * The earliest deadline passes.
    /// * A touch sets an earlier deadline.
    /// * The last handle is dropped.
    ///
    /// The task may also wake while no key is expired. This happens at an old deadline of a key
    /// that was touched or removed.
    ///
    /// # Panics
    ///
    /// Panics if the method must wait for a deadline, and one of these conditions holds:
    ///
    /// * The set uses the default timer, and the method is called outside a runtime.
    /// * The set uses the default timer, and the method is called on a runtime without
    ///   `enable_time`.
    /// * The set uses a timer that has shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{future::poll_fn, task::Poll};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (set, mut reaper) = IdleSet::new(Duration::from_secs(30));
    /// set.touch(&7);
    /// assert_eq!(poll_fn(|cx| reaper.poll_reap(cx)).await, Some(7));
    /// # }
    /// ```
    #[track_caller]
    pub fn poll_reap(&mut self, cx: &mut Context<'_>) -> Poll<Option<K>> {
        self.poll_key(false, cx)
    }

    /// Removes the key that is closest to its deadline, and returns it.
    ///
    /// A server can use this method when it runs out of a resource, such as file descriptors. The
    /// server can then close the connections that have been silent for the longest time. The method
    /// returns the key that [`reap`](Self::reap) would return next.
    ///
    /// Returns `None` if no key with a deadline is left. A key has no deadline if its timeout is too
    /// long for any clock, such as [`Duration::MAX`](tokio_wheel::Duration::MAX). A shed never returns such
    /// a key.
    ///
    /// The method does not wait for time to pass. It is pending only to let other tasks run, in two
    /// cases:
    ///
    /// * It has made 2,048 steps in one poll. These steps take at most a millisecond.
    /// * The task has used up its budget.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it is ready, no key is lost.
    ///
    /// # What it costs
    ///
    /// Returning a key costs as much as in [`reap`](Self::reap). If a task has touched a key since the
    /// key's entry last moved, the shed also moves the entry. If each of a million keys was touched, the
    /// first key of the shed may therefore cost a million moves, in 1,600 polls.
    ///
    /// When a shed reaches a coarse slot, it moves all entries of the slot. With a tick of 1 ms, a
    /// coarse slot spans 4.1 s. If a million keys have a timeout of a minute, the slot has 70,000
    /// entries. The shed holds a lock for at most 64 steps.
    ///
    /// The next shed continues where this one ended. If a key is inserted later with an earlier deadline
    /// than the last key of the shed, its shard stores 16 bytes for it in a B-tree until that deadline. No
    /// other entry moves.
    ///
    /// For example, if keys usually have a timeout of a minute, and a shed removes a key whose deadline is
    /// a day away, then all keys that are inserted during that day take this slower path.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, sleep};
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let (set, mut reaper) = IdleSet::new(Duration::from_secs(30));
    /// for id in 0..5 {
    ///     set.touch(&id);
    ///     sleep(Duration::from_secs(1)).await;
    /// }
    /// set.touch(&0);
    ///
    /// assert_eq!(reaper.shed().await, Some(1));
    /// assert_eq!(reaper.shed().await, Some(2));
    /// assert_eq!(set.len(), 3);
    ///
    /// assert_eq!(reaper.reap().await, Some(3));
    /// assert_eq!(start.elapsed(), Duration::from_secs(33));
    /// # }
    /// ```
    pub async fn shed(&mut self) -> Option<K> {
        poll_fn(|cx| self.poll_shed(cx)).await
    }

    /// Polls for the key that is closest to its deadline: see [`shed`](Self::shed).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::idle::IdleSet;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (set, mut reaper) = IdleSet::new(Duration::from_secs(30));
    /// set.touch(&7);
    /// assert_eq!(poll_fn(|cx| reaper.poll_shed(cx)).await, Some(7));
    /// assert_eq!(poll_fn(|cx| reaper.poll_shed(cx)).await, None);
    /// # }
    /// ```
    pub fn poll_shed(&mut self, cx: &mut Context<'_>) -> Poll<Option<K>> {
        self.poll_key(true, cx)
    }

    /// Polls for a key that has expired, or sheds a key.
    ///
    /// A shed does not wait for the clock, and uses its own sweeps.
    #[track_caller]
    fn poll_key(&mut self, sheds: bool, cx: &mut Context<'_>) -> Poll<Option<K>> {
        let unit = ready!(self.starved.take_unit(cx));
        let mut steps = STEPS;
        // The tick of an alarm that has fired. If this thread's clock is still before the alarm's tick,
        // the reaper uses the alarm's tick as the current time.
        let mut reached = 0;
        let mut shed = Sweep::default();
        let sweep = if sheds { &mut shed } else { &mut self.sweep };
        loop {
            if let Some(key) = sweep.next_key(&self.shards, &mut steps) {
                unit.inspect(RestoreOnPending::made_progress);
                return Poll::Ready(Some(key));
            }
            if steps == 0 {
                self.yields.end_poll(cx);
                return Poll::Pending;
            }
            steps = steps.saturating_sub(self.shards.steps_of_a_look());
            let until = if sheds {
                match self.shards.published() {
                    NEVER => return Poll::Ready(None),
                    until => until,
                }
            } else {
                let now = self.shards.clock.now().max(reached);
                let Some(until) = self.shards.wait(cx.waker()) else {
                    return Poll::Ready(None);
                };
                if until > now {
                    ready!(self.alarm.poll(until, cx));
                    reached = until;
                }
                until
            };
            *sweep = Sweep::to(until);
        }
    }
}

impl<K> Drop for Reaper<K> {
    fn drop(&mut self) {
        // The drop of a key runs user code, so the reaper closes all shards before it drops the
        // first key.
        let keys = self.shards.close();
        self.shards.armed.disarm();
        drop(keys);
    }
}

impl<K> fmt::Debug for Reaper<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reaper")
            .field("len", &self.shards.len())
            .finish_non_exhaustive()
    }
}

impl<K> Stream for Reaper<K> {
    type Item = K;

    #[track_caller]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<K>> {
        self.get_mut().poll_reap(cx)
    }
}

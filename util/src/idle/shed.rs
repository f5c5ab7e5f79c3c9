//! A shed: the reaper returns keys before their deadlines, beginning with the earliest deadline.
//!
//! A shed works sweep by sweep, as the reaper does. It never waits for the clock between two
//! sweeps. So it advances the wheels to ticks that the clock has not reached. A thread may then
//! register an entry with a tick that the wheel has passed. The shed has
//! [overtaken](super::shard) such an entry.
//!
//! Invariants:
//!
//! * A shed uses its own sweeps. The reaper's sweep never reaches a tick that the clock has not
//!   reached (`keys_come_out_as_in_the_model`).
//! * Each poll looks for the earliest tick and begins a new sweep. Otherwise a key that a task has
//!   touched since the last poll could be earlier than the tick of the sweep
//!   (`keys_come_out_as_in_the_model`).
//! * A poll makes a limited number of steps and then yields (`a_shed_of_touched_keys_takes_turns`).
//! * A key leaves its shard only in the poll that returns it (`keys_come_out_as_in_the_model`).

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use super::reaper::Reaper;

impl<K> Reaper<K> {
    /// Removes the key that is closest to its deadline, and returns it.
    ///
    /// A server can use this method when it runs out of a resource, such as file descriptors. The
    /// server can then close the connections that have been silent for the longest time. The method
    /// returns the key that [`reap`](Self::reap) would return next under the current
    /// [pressure](super::IdleSet::set_pressure).
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
    /// Each returned key costs as much as in the reaper. If a task has touched a key since the key's
    /// entry last moved, the shed also moves the entry. Suppose that tasks have touched each of a
    /// million keys. Then the first key of the shed may cost a million moves, in 1,600 polls.
    ///
    /// When a shed reaches a coarse slot, it moves all entries of the slot. With a tick of 1 ms, a
    /// coarse slot spans 4.1 s. If a million keys have a timeout of a minute, the slot has 70,000
    /// entries. The shed holds a lock for at most 64 steps.
    ///
    /// The next shed continues where this shed ended. Suppose that a new key has an earlier
    /// deadline than the last key of the shed. Then the shard of the new key stores 16 bytes for it in a
    /// B-tree until the new key's deadline. No other entry moves.
    ///
    /// Suppose that the usual timeout is a minute, and a shed removes a key whose deadline is a day
    /// away. Then all insertions of the next day use the B-trees.
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
}

//! The stream that returns keys before their deadlines, beginning with the earliest deadline.
//!
//! A shed works round by round, as the reaper does, but never waits between two rounds. So it
//! advances the wheels to ticks that the clock has not reached. Entries that are then registered
//! before these ticks are [behind](super::behind) the shed.
//!
//! Invariants:
//!
//! * A shed uses its own rounds. The reaper's round never reaches a tick that the clock has not
//!   reached (`tests/idle/shed.rs`, `no_key_is_early_after_a_shed`).
//! * A poll makes at most [`STEPS`] steps and then yields (`a_shed_of_touched_keys_takes_turns`).
//! * A key leaves its shard only in the poll that returns it (`what_is_not_asked_for_stays`).

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::{FusedStream, Stream};
use tokio::task::coop;

use super::{
    pace,
    reaper::{Reaper, STEPS, steps_of_a_look},
    round::Round,
};

/// Removes and returns the keys that are closest to their deadlines. [`Reaper::shed`] returns it.
///
/// This is a [`Stream`]; [`next`](Self::next) works without `StreamExt`.
#[must_use = "a stream does nothing unless it is polled"]
pub struct Shed<'a, K> {
    reaper: &'a mut Reaper<K>,
    round: Round,
    /// The number of keys that it may still return.
    left: usize,
}

impl<K> Reaper<K> {
    /// Removes up to `count` keys before their deadlines, beginning with the earliest deadline.
    ///
    /// A server that runs out of a resource, such as file descriptors, can close the connections
    /// that have been silent for the longest time. The order is the order in which the reaper would
    /// return the keys, under the current [pressure](super::IdleSet::set_pressure).
    ///
    /// Each poll that is ready removes one key. All other keys stay in the set and keep their
    /// deadlines. If the stream is dropped, or if the loop panics, no key is lost. If a task
    /// touches a key before the stream returns it, the new deadline decides the key's turn.
    ///
    /// The stream ends after `count` keys, or when no other key has a deadline. A key whose timeout
    /// is too long for any clock, such as [`Duration::MAX`](crate::Duration::MAX), stays.
    ///
    /// The stream does not wait for time to pass. It is pending only to let other tasks run, in two
    /// cases:
    ///
    /// * It has made 2,048 steps in one poll, which take at most a millisecond.
    /// * The task has used up its budget.
    ///
    /// # What it costs
    ///
    /// Among a million keys, each returned key costs a third of a microsecond, in the reaper as
    /// well as in a shed. If a task has touched a key since its entry last moved, the shed also
    /// moves that entry. Suppose that tasks have touched each of a million keys. Then the first
    /// shed key may cost a million moves, which take 0.4 s in 1,600 polls.
    ///
    /// When a shed reaches a coarse slot, it moves all entries of that slot. With a tick of 1 ms,
    /// such a slot spans 4.1 s. Of a million keys with a timeout of a minute, it holds 70,000,
    /// whose moves take 5 to 10 ms. No lock is held for more than 64 steps.
    ///
    /// The next shed continues where this shed ended. A new key may have an earlier deadline than
    /// the last key that was shed. The set then stores 16 bytes in a B-tree until that deadline,
    /// under a lock that all such insertions share. No other entry moves. Among a million keys,
    /// three operations take 1.2 µs together: insert a key with a short timeout, set its usual
    /// timeout, and shed a key.
    ///
    /// Suppose the usual timeout is a minute, and a shed removes a key whose deadline is a day
    /// away. Then all insertions of that day use the B-tree.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::StreamExt;
    /// use tokio_wheel::{Duration, Instant, idle::IdleSet, sleep};
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
    /// assert_eq!(reaper.shed(2).collect::<Vec<_>>().await, [1, 2]);
    /// assert_eq!(set.len(), 3);
    ///
    /// assert_eq!(reaper.reap().await, Some(3));
    /// assert_eq!(start.elapsed(), Duration::from_secs(33));
    /// # }
    /// ```
    pub fn shed(&mut self, count: usize) -> Shed<'_, K> {
        Shed {
            reaper: self,
            round: Round::ended(),
            left: count,
        }
    }
}

impl<K> Shed<'_, K> {
    /// Removes the next key and returns it.
    ///
    /// Returns `None` after `count` keys, or when no other key has a deadline. Later calls return
    /// `None` as well.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped before it is ready, no key is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, idle::IdleSet};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (set, mut reaper) = IdleSet::new(Duration::from_secs(30));
    /// set.touch("later");
    /// set.touch_with_timeout("soon", Duration::from_secs(5));
    ///
    /// let mut shed = reaper.shed(1);
    /// assert_eq!(shed.next().await, Some("soon".to_owned()));
    /// assert_eq!(shed.next().await, None);
    /// assert!(set.contains("later"));
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<K> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<K>> {
        let budget = ready!(coop::poll_proceed(cx));
        let Reaper { core, turns, .. } = &mut *self.reaper;
        let mut steps = STEPS;
        while self.left > 0 {
            if let Some(key) = self.round.work(core, &mut steps) {
                budget.made_progress();
                turns.was_of_use();
                self.left -= 1;
                return Poll::Ready(Some(key));
            }
            if steps == 0 {
                turns.end(cx);
                return Poll::Pending;
            }
            let until = core.next_expiration();
            steps = steps.saturating_sub(steps_of_a_look(core));
            if !pace::is_shed(until) {
                self.left = 0;
                break;
            }
            self.round = Round::new(until);
        }
        Poll::Ready(None)
    }
}

impl<K> Stream for Shed<'_, K> {
    type Item = K;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<K>> {
        self.get_mut().poll(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

impl<K> FusedStream for Shed<'_, K> {
    fn is_terminated(&self) -> bool {
        self.left == 0
    }
}

impl<K> fmt::Debug for Shed<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shed")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

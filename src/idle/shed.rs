//! Hands keys out before they are due, those first that are nearest to their deadlines.
//!
//! A shed goes from round to round as the reaper does, but does not wait in between. So it advances the wheels to ticks that
//! the clock has not reached: [`behind`](super::behind) says what becomes of entries that are registered before these. The
//! rounds are its own: the reaper's round is never at a tick that the clock has not reached
//! (`tests/idle/shed.rs`, `no_key_is_early_after_a_shed`). It gives way as the reaper does
//! (`a_shed_of_touched_keys_takes_turns`).

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

/// Hands out the keys that are nearest to their deadlines; returned by [`Reaper::shed`].
///
/// This is a [`Stream`]; [`next`](Self::next) does without `StreamExt`.
#[must_use = "a stream does nothing unless it is polled"]
pub struct Shed<'a, K> {
    reaper: &'a mut Reaper<K>,
    round: Round,
    /// How many keys it may still hand out.
    left: usize,
}

impl<K> Reaper<K> {
    /// Takes out up to `count` keys before they are due: those first that are nearest to their deadlines.
    ///
    /// This is for a server that runs short of something, such as file descriptors: it closes the connections that have
    /// been silent for longest. The order is the order in which the keys would come out of the reaper. Within one tick, keys
    /// come out in any order. [Pressure](super::IdleSet::set_pressure) counts.
    ///
    /// The stream takes each key out when it is polled for the next one. The rest stays in the set: if the stream is
    /// dropped, or if the loop panics, no key is lost. A key that is touched before its turn gets the turn of its new
    /// deadline. The stream ends after `count` keys, or when no other key has a deadline. A key whose timeout never
    /// ends, such as [`Duration::MAX`](crate::Duration::MAX), stays.
    ///
    /// The stream does not wait for time to pass. It is pending only to let other tasks run: after 2,048 steps, which take a
    /// millisecond at the most, or when the task's budget is used up.
    ///
    /// The keys that stay keep their deadlines, and come out of the reaper when they are due.
    ///
    /// # What it costs
    ///
    /// A key costs what it costs when it comes out of the reaper: a third of a microsecond among a million. A key that was
    /// touched since its entry was last moved costs one more move. If all of a million were, the first key that is shed may
    /// cost a million moves, which take 0.4 s in 1,600 polls. When a shed comes to a coarse slot, it moves all
    /// entries of that slot, which spans 4.1 s with a tick of 1 ms. Of a million keys with a timeout of a minute these are
    /// 70,000, and take 5 to 10 ms. No lock is held for more than 64 steps.
    ///
    /// The next shed goes on where this one ended. A new key may have a deadline before the last one that was shed. The
    /// set then keeps an element of 16 bytes in a B-tree until that deadline, under a lock that all such insertions share. No
    /// other entry moves: to insert a key with a short timeout, to give it the usual one, and to shed a key takes
    /// 1.2 µs among a million. A shed that takes keys of a day, in a set whose usual timeout is a minute, makes all
    /// insertions during that day such insertions.
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
    /// Takes the next key out.
    ///
    /// Returns `None` after `count` keys, or when no other key has a deadline, and from then on.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, no key is lost.
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

//! Hands keys out before they are due, those first that are nearest to their deadlines.
//!
//! A shed goes from round to round as the reaper does, but does not wait in between. So it advances the wheels to ticks that
//! the clock has not reached: [`pace`](super::pace) says what becomes of entries that are registered behind these. The
//! rounds are its own: the reaper's round is never at a tick that the clock has not reached
//! (`tests/idle/shed.rs`, `no_key_is_early_after_a_shed`).

use std::{fmt, iter::FusedIterator};

use super::{reaper::Reaper, round::Round};

/// Hands out the keys that are nearest to their deadlines; returned by [`Reaper::shed`].
#[must_use = "an iterator does nothing unless it is advanced"]
pub struct Shed<'a, K> {
    reaper: &'a Reaper<K>,
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
    /// The iterator takes each key out when it is asked for the next one. The rest stays in the set: if the iterator is
    /// dropped, or if the loop panics, no key is lost. A key that is touched before its turn gets the turn of its new
    /// deadline. The iterator ends after `count` keys, or when no other key has a deadline. A key whose timeout never
    /// ends, such as [`Duration::MAX`](crate::Duration::MAX), stays.
    ///
    /// The keys that stay keep their deadlines, and come out of the reaper when they are due.
    ///
    /// # What it costs
    ///
    /// A key costs what it costs when it comes out of the reaper: a third of a microsecond among a million. A key that was
    /// touched since its entry was last moved costs one more move. When a shed comes to a coarse slot, it moves all entries of
    /// that slot, which spans 4.1 s with a tick of 1 ms. Of a million keys with a timeout of a minute these are 70,000, and the
    /// shed takes 4 ms. No lock is held for more than 64 steps.
    ///
    /// The next shed goes on where this one ended. If a new key has a deadline before the last one that was shed, the lead of
    /// the wheels rises, and entries that stay may be moved once more.
    ///
    /// # Examples
    ///
    /// ```
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
    /// assert!(reaper.shed(2).eq([1, 2]));
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

impl<K> Iterator for Shed<'_, K> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        let core = &*self.reaper.core;
        while self.left > 0 {
            if let Some(key) = self.round.work(core, &mut { usize::MAX }) {
                self.left -= 1;
                return Some(key);
            }
            let until = core.next_expiration();
            if !core.pace.shed_to(until) {
                self.left = 0;
                break;
            }
            self.round = Round::new(until);
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

impl<K> FusedIterator for Shed<'_, K> {}

impl<K> fmt::Debug for Shed<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shed")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

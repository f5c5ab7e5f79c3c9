//! The side that takes keys out: the shards in turn, tick by tick.
//!
//! | State   | The round is at | The armed tick                         | Left through                |
//! |---------|-----------------|----------------------------------------|-----------------------------|
//! | working | a shard         | has passed                             | the last shard of the round |
//! | looking | its end         | has passed                             | within the same poll        |
//! | waiting | its end         | the alarm's, or one that a touch has set since | that tick           |
//!
//! The armed tick has passed while a [round](super::round) lasts, so no touch wakes a reaper that works.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::{FusedStream, Stream};
use tokio::task::coop;

use super::{core::Core, round::Round, shard::Shard};
use crate::{futures::TickSleep, ground::give_way::Turns, wheel::Tick};

/// Steps in one poll, a millisecond at the most. A step is one of a wheel and a look-up of a key,
/// which costs up to 0.5 µs when there are very many, or a visit of a shard. On a busy runtime the
/// next poll is milliseconds away.
pub(super) const STEPS: usize = 2_048;

/// So many looks at what a shard publishes are a step.
const LOOKS: usize = 64;

/// Returns how many steps it is to look for the next expiration.
pub(super) fn steps_of_a_look<K>(core: &Core<K>) -> usize {
    1 + core.shards.iter().count() / LOOKS
}

/// The keys of an [`IdleSet`](super::IdleSet) that nobody has touched in time.
///
/// This is a [`Stream`]; [`reap`](Self::reap) does without `StreamExt`. It is pending while no key
/// is due, even if the set is empty. It ends when the set is empty and its last handle is dropped.
/// A key whose timeout never ends, such as [`Duration::MAX`](crate::Duration::MAX), is never due,
/// and keeps the stream from ending.
///
/// Keys stay in the set until the reaper returns them: a set whose reaper is not polled grows.
///
/// Dropping the reaper closes the set: its keys are dropped, and touching does nothing.
///
/// # Examples
///
/// ```
/// use tokio_stream::StreamExt;
/// use tokio_wheel::{Duration, idle::IdleSet};
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
    pub(super) core: Arc<Core<K>>,
    alarm: TickSleep,
    round: Round,
    pub(super) turns: Turns,
    /// Whether the stream has returned `None`.
    ended: bool,
}

impl<K> Reaper<K> {
    pub(super) fn new(core: Arc<Core<K>>, alarm: TickSleep) -> Self {
        Self {
            core,
            alarm,
            round: Round::ended(),
            turns: Turns::default(),
            ended: false,
        }
    }

    /// Waits for the next key that nobody has touched in time, and takes it out.
    ///
    /// Returns `None` when the set is empty and its last handle is dropped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, no key is lost.
    ///
    /// # Panics
    ///
    /// As the future of [`sleep`](crate::sleep()), if no key is due.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, idle::IdleSet};
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

    /// Polls for the next key that nobody has touched in time.
    ///
    /// Ready with `None` if the set is empty and its last handle is dropped. Otherwise, when
    /// pending, the task of the most recent call is woken at the earliest deadline, when a touch
    /// sets an earlier one, when the pressure rises, and when the last handle is dropped. It may be woken for nothing, at
    /// the deadline that a key had before it was touched or removed.
    ///
    /// # Panics
    ///
    /// As the future of [`sleep`](crate::sleep()), if no key is due.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{future::poll_fn, task::Poll};
    /// use tokio_wheel::{Duration, idle::IdleSet};
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
        let budget = ready!(coop::poll_proceed(cx));
        let mut steps = STEPS;
        // A tick that the alarm has reached counts, whatever the clock says.
        let mut reached = Tick(0);
        loop {
            if let Some(key) = self.round.work(&self.core, &mut steps) {
                budget.made_progress();
                self.turns.was_of_use();
                return Poll::Ready(Some(key));
            }
            if steps == 0 {
                self.turns.end(cx);
                return Poll::Pending;
            }
            let now = self.core.clock.now().max(reached);
            let Some(until) = self.core.wait(cx.waker(), now) else {
                self.ended = true;
                return Poll::Ready(None);
            };
            steps = steps.saturating_sub(steps_of_a_look(&self.core));
            if until.clock > now {
                ready!(self.alarm.poll(until.clock, cx));
                reached = until.clock;
            }
            self.round = Round::new(until.wheel);
        }
    }
}

impl<K> Drop for Reaper<K> {
    fn drop(&mut self) {
        // All are closed before the first key is dropped, which is foreign code.
        let keys: Vec<_> = self.core.shards.iter().map(Shard::close).collect();
        drop(self.core.take_waker());
        drop(keys);
    }
}

impl<K> fmt::Debug for Reaper<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reaper")
            .field("len", &self.core.len())
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

impl<K> FusedStream for Reaper<K> {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

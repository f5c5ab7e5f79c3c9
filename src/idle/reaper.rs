//! The side that takes keys out: the shards in turn, tick by tick.
//!
//! | State   | `round` | The bell is armed for      | Left through                               |
//! |---------|---------|----------------------------|--------------------------------------------|
//! | working | `Some`  | a tick that is over        | the last shard of the round                |
//! | looking | `None`  | a tick that is over        | within the same poll                       |
//! | waiting | `None`  | the tick that the alarm is set to, or one that a touch has set since | that tick |
//!
//! A *round* takes out of every shard what is due up to one tick, which no deadline of the set is
//! before. So keys come out in the order of the ticks, whatever shard they are in
//! (`oracle::keys_come_out_as_in_the_model`). While a round lasts the bell is armed for a tick that
//! is over: nobody wakes a reaper that works.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use tokio::task::coop;

use super::{
    Core, Wait,
    shard::{Due, Shard},
};
use crate::{futures::Sleep, ground::give_way::Turns, wheel::Tick};

/// Steps in one poll, a millisecond at the most. A step is one of a wheel and a look-up of a key,
/// which costs up to 0.5 µs when there are very many, or a visit of a shard. On a busy runtime the
/// next poll is milliseconds away.
const STEPS: usize = 2_048;

/// Steps under one hold of a shard's lock.
const BATCH: usize = 64;

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
    core: Arc<Core<K>>,
    alarm: Sleep,
    round: Option<Round>,
    turns: Turns,
}

struct Round {
    to: Tick,
    /// The number of the shard that is next. Those before have nothing due up to `to`.
    shard: usize,
}

impl<K> Reaper<K> {
    pub(super) fn new(core: Arc<Core<K>>, alarm: Sleep) -> Self {
        Self {
            core,
            alarm,
            round: None,
            turns: Turns::default(),
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
    /// sets an earlier one, and when the last handle is dropped. It may be woken in vain, at the
    /// deadline that a key had before it was touched or removed.
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
        // What an alarm says counts, also where this thread's clock is another than its timer's.
        let mut reached = Tick(0);
        loop {
            match self.work(&mut steps) {
                Due::Key(key) => {
                    budget.made_progress();
                    self.turns.was_of_use();
                    return Poll::Ready(Some(key));
                }
                Due::Nothing => {}
                Due::Unknown => {
                    self.turns.end(cx);
                    return Poll::Pending;
                }
            }
            let now = self.core.clock.now().max(reached);
            let Wait { until, abandoned } = self.core.wait(cx.waker(), now);
            steps = steps.saturating_sub(self.core.shards.len());
            if until > now {
                if abandoned && self.core.len() == 0 {
                    return Poll::Ready(None);
                }
                if self.poll_alarm(until, cx).is_pending() {
                    return Poll::Pending;
                }
                reached = until;
            }
            self.round = Some(Round {
                to: until,
                shard: 0,
            });
        }
    }

    /// Goes on with the round, if there is one, until a key is due.
    fn work(&mut self, steps: &mut usize) -> Due<K> {
        let Some(round) = &mut self.round else {
            return Due::Nothing;
        };
        while let Some(shard) = self.core.shards.get(round.shard) {
            if *steps == 0 {
                return Due::Unknown;
            }
            *steps -= 1;
            let mut batch = BATCH.min(*steps);
            *steps -= batch;
            let due = shard.expire(round.to, &mut batch);
            *steps += batch;
            match due {
                Due::Key(key) => return Due::Key(key),
                Due::Nothing => round.shard += 1,
                Due::Unknown => {}
            }
        }
        self.round = None;
        Due::Nothing
    }

    /// Polls the alarm for a tick. One that is out of the clock's reach never comes.
    #[track_caller]
    fn poll_alarm(&mut self, tick: Tick, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.core.clock.instant(tick) else {
            return Poll::Pending;
        };
        if self.alarm.deadline() != deadline {
            self.alarm.reset_deadline(deadline);
        }
        self.alarm.poll_alarm(cx)
    }
}

impl<K> Drop for Reaper<K> {
    fn drop(&mut self) {
        // All are closed before the first key is dropped, which is foreign code.
        let keys: Vec<_> = self.core.shards.iter().map(Shard::close).collect();
        self.core.bell.forget();
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

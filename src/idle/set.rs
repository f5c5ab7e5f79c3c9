//! The side that touches keys: a handle, which hashes, reads the clock and goes to a shard.

use std::{
    borrow::Borrow,
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    core::Core,
    digest::Digest,
    pace::nanos,
    shard::{Outcome, Retry, Shard},
};
use crate::wheel::Tick;

/// A set of keys that come out of its [`Reaper`](super::Reaper) when they go untouched: see the
/// [module](super).
///
/// This is a handle: clones stand for the same set. Any number of tasks and threads may use them,
/// inside and outside of runtimes.
///
/// A key can be touched and looked up by any borrowed form of it, whose [`Hash`] and [`Eq`] must be
/// those of the key, as with [`HashMap`](std::collections::HashMap). `Eq` and [`Borrow`] are called
/// under a lock: they must not use the same set, or they hang.
///
/// # Examples
///
/// Each connection touches its key when it hears from its peer, and one task closes the silent
/// ones:
///
/// ```
/// use std::collections::HashMap;
/// use tokio::sync::oneshot;
/// use tokio_wheel::{
///     Duration,
///     idle::{IdleSet, Touched},
///     interval,
/// };
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let (set, mut reaper) = IdleSet::new(Duration::from_secs(30));
/// let mut connections = HashMap::new();
/// for id in 0..3_u64 {
///     let (close, mut closed) = oneshot::channel::<()>();
///     connections.insert(id, close);
///     let set = set.clone();
///     tokio::spawn(async move {
///         // The last one never hears from its peer.
///         let mut heartbeat = interval(Duration::from_secs(10));
///         set.touch(&id);
///         loop {
///             tokio::select! {
///                 _ = heartbeat.tick(), if id < 2 => {
///                     assert_eq!(set.touch_existing(&id), Touched::Present);
///                 }
///                 _ = &mut closed => break,
///             }
///         }
///     });
/// }
///
/// let silent = reaper.reap().await.unwrap();
/// assert_eq!(silent, 2);
/// connections.remove(&silent).unwrap().send(()).unwrap();
/// assert_eq!(set.len(), 2);
/// # }
/// ```
pub struct IdleSet<K, S = RandomState> {
    pub(super) handle: Arc<Handle<K, S>>,
}

/// Tells whether a touch found its key; returned by [`IdleSet::touch`] and the methods related to it.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{
///     Duration,
///     idle::{IdleSet, Touched},
/// };
///
/// let (set, reaper) = IdleSet::<String>::new(Duration::from_secs(30));
/// assert_eq!(set.touch_existing("a"), Touched::Absent);
/// assert_eq!(set.touch("a"), Touched::Inserted);
/// assert_eq!(set.touch("a"), Touched::Present);
///
/// drop(reaper);
/// assert_eq!(set.touch("a"), Touched::Closed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Touched {
    /// The key was not in the set. The touch inserted it.
    Inserted,
    /// The key was in the set already. The touch moved its deadline.
    Present,
    /// The key is not in the set, and the method does not insert keys.
    Absent,
    /// The set is closed, because its reaper was dropped. The touch did nothing.
    Closed,
}

/// What the clones of a handle share. On cache lines of its own: the reference count before it
/// is written to whenever a clone comes or goes, and this is read by every touch.
#[repr(align(128))]
pub(super) struct Handle<K, S> {
    pub(super) core: Arc<Core<K>>,
    pub(super) timeout: Duration,
    pub(super) hasher: S,
}

impl<K, S> IdleSet<K, S> {
    /// The timeout of keys that have none of their own.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, idle::IdleSet};
    ///
    /// let (set, _reaper) = IdleSet::<u64>::new(Duration::from_secs(30));
    /// assert_eq!(set.timeout(), Duration::from_secs(30));
    /// ```
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.handle.timeout
    }

    /// Sets how much of their timeouts keys lose, from 0 for nothing to 1 for all but the
    /// [minimal timeout](super::Builder::min_timeout) of the set.
    ///
    /// This is for a server that comes near a limit, such as the number of its file descriptors. The deadline of each key
    /// moves at once: what a key loses is the pressure times the difference of its timeout and the minimal one. No key loses
    /// more than a key with the set's timeout does: a timeout that is longer
    /// stays as much longer as it is. If the set's timeout is longer than a day, it counts as a day here. With a timeout of 60 s and a minimal one of 10 s:
    ///
    /// | timeout of the key | pressure 0 | 0.5   | 1     |
    /// |--------------------|------------|-------|-------|
    /// | 5 s                | 5 s        | 5 s   | 5 s   |
    /// | 10 s               | 10 s       | 10 s  | 10 s  |
    /// | 30 s               | 30 s       | 20 s  | 10 s  |
    /// | 60 s, of the set   | 60 s       | 35 s  | 10 s  |
    /// | 300 s              | 300 s      | 275 s | 250 s |
    /// | never ends         | never      | never | never |
    ///
    /// When the pressure rises, the reaper wakes up, and returns the keys whose deadlines are over by then. When it falls,
    /// keys that are still in the set get back what they lost. No key comes out before its deadline of the moment. What a
    /// key loses is rounded down to a tick.
    ///
    /// A pressure below 0 counts as 0, one above 1 as 1, and a NaN as 0. Without a minimal timeout, pressure has no effect.
    ///
    /// # What it costs
    ///
    /// The call takes the same time for any number of keys. A rise then makes the reaper do the work of the time that it takes
    /// from the timeouts: it returns the keys that are due, and looks once more at those that were touched.
    ///
    /// That time is the rise times the difference of the set's timeout and the minimal one. So the set's timeout should be the
    /// timeout of most keys. If it is a day, and most keys have a minute, a rise of 0.001 makes the reaper look at all of them.
    ///
    /// A pressure that is the number of keys divided by a limit may be set for each key that comes and goes. Round a pressure
    /// that is measured often and jitters.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, idle::IdleSet, sleep};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tokio_wheel::error::BuildError> {
    /// let start = Instant::now();
    /// let (set, mut reaper) = IdleSet::builder(Duration::from_secs(60))
    ///     .min_timeout(Duration::from_secs(10))
    ///     .build()?;
    /// set.touch("silent");
    /// sleep(Duration::from_secs(20)).await;
    /// set.touch("talks");
    ///
    /// set.set_pressure(1.0);
    /// assert_eq!(reaper.reap().await.as_deref(), Some("silent"));
    /// assert_eq!(start.elapsed(), Duration::from_secs(20));
    ///
    /// set.set_pressure(0.5);
    /// assert_eq!(reaper.reap().await.as_deref(), Some("talks"));
    /// assert_eq!(start.elapsed(), Duration::from_secs(55));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_pressure(&self, pressure: f64) {
        self.handle.core.set_pressure(pressure);
    }

    /// Returns the pressure: see [`set_pressure`](Self::set_pressure).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, idle::IdleSet};
    ///
    /// let (set, _reaper) = IdleSet::<u64>::new(Duration::from_secs(30));
    /// assert_eq!(set.pressure(), 0.0);
    /// set.set_pressure(1.5);
    /// assert_eq!(set.pressure(), 1.0);
    /// ```
    #[must_use]
    pub fn pressure(&self) -> f64 {
        self.handle.core.pace.pressure()
    }

    /// The number of keys, including those that are due.
    ///
    /// Locks each shard in turn for a moment, so the sum is of slightly different times.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, idle::IdleSet};
    ///
    /// let (set, _reaper) = IdleSet::new(Duration::ZERO);
    /// set.touch("a");
    /// set.touch("a");
    /// assert_eq!(set.len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.handle.core.len()
    }

    /// Whether there are no keys: see [`len`](Self::len).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, idle::IdleSet};
    ///
    /// let (set, _reaper) = IdleSet::new(Duration::from_secs(30));
    /// assert!(set.is_empty());
    /// set.touch("a");
    /// assert!(!set.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the reaper was dropped, so that touching no longer does anything.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{
    ///     Duration,
    ///     idle::{IdleSet, Touched},
    /// };
    ///
    /// let (set, reaper) = IdleSet::new(Duration::from_secs(30));
    /// set.touch("a");
    /// drop(reaper);
    /// assert!(set.is_closed() && set.is_empty());
    /// assert_eq!(set.touch("a"), Touched::Closed);
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.handle.core.shards.iter().all(Shard::is_closed)
    }
}

impl<K, S: BuildHasher> IdleSet<K, S> {
    /// Puts a key's deadline off to its timeout from now, or inserts the key if it is not in the
    /// set. Returns whether it was inserted.
    ///
    /// The timeout is that of the set, unless [`touch_with_timeout`](Self::touch_with_timeout) has
    /// given the key one of its own. A key that is due but has not come out of the reaper waits
    /// again.
    ///
    /// The key is cloned only to be inserted. If the reaper was dropped, this does nothing and
    /// returns `false`.
    ///
    /// A key that has come out of the reaper is inserted again. Where that is not wanted, insert it
    /// with this once, and use [`touch_existing`](Self::touch_existing) from then on.
    ///
    /// # Panics
    ///
    /// If a shard holds 2<sup>31</sup> keys.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{
    ///     Duration,
    ///     Instant,
    ///     idle::{IdleSet, Touched},
    ///     sleep,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let (set, mut reaper) = IdleSet::<String>::new(Duration::from_secs(30));
    /// assert_eq!(set.touch("a"), Touched::Inserted);
    /// sleep(Duration::from_secs(20)).await;
    /// assert_eq!(set.touch("a"), Touched::Present);
    ///
    /// assert_eq!(reaper.reap().await.as_deref(), Some("a"));
    /// assert_eq!(start.elapsed(), Duration::from_secs(50));
    /// # }
    /// ```
    #[inline]
    pub fn touch<Q>(&self, key: &Q) -> Touched
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.touch_with(key, None, |key| Some(key.to_owned()))
    }

    /// As [`touch`](Self::touch), but does not insert the key. Returns whether it is in the set.
    ///
    /// A connection that touches its key with this never inserts it again once the reaper has
    /// returned it: see [the module](super#what-happens-to-a-key).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{
    ///     Duration,
    ///     Instant,
    ///     idle::{IdleSet, Touched},
    ///     sleep,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let (set, mut reaper) = IdleSet::<String>::new(Duration::from_secs(30));
    /// set.touch("a");
    /// sleep(Duration::from_secs(20)).await;
    /// assert_eq!(set.touch_existing("a"), Touched::Present);
    ///
    /// assert_eq!(reaper.reap().await.as_deref(), Some("a"));
    /// assert_eq!(start.elapsed(), Duration::from_secs(50));
    /// assert_eq!(set.touch_existing("a"), Touched::Absent);
    /// assert!(set.is_empty());
    /// # }
    /// ```
    #[inline]
    pub fn touch_existing<Q>(&self, key: &Q) -> Touched
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.touch_with(key, None, |_| None)
    }

    /// As [`touch`](Self::touch), and gives the key a timeout of its own, which later touches use
    /// as well until the key leaves the set.
    ///
    /// The new deadline may be earlier than the old one.
    ///
    /// # Panics
    ///
    /// As [`touch`](Self::touch).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, idle::IdleSet};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let (set, mut reaper) = IdleSet::<String>::new(Duration::from_secs(30));
    /// set.touch("new");
    /// set.touch_with_timeout("known", Duration::from_secs(300));
    /// set.touch("known");
    ///
    /// assert_eq!(reaper.reap().await.as_deref(), Some("new"));
    /// assert_eq!(reaper.reap().await.as_deref(), Some("known"));
    /// assert_eq!(start.elapsed(), Duration::from_secs(300));
    /// # }
    /// ```
    pub fn touch_with_timeout<Q>(&self, key: &Q, timeout: Duration) -> Touched
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.touch_with(key, Some(timeout), |key| Some(key.to_owned()))
    }

    /// As [`touch_with_timeout`](Self::touch_with_timeout), but does not insert the key. Returns
    /// whether it is in the set.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{
    ///     Duration,
    ///     Instant,
    ///     idle::{IdleSet, Touched},
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let (set, mut reaper) = IdleSet::<String>::new(Duration::from_secs(30));
    /// let trusted = Duration::from_secs(300);
    /// assert_eq!(set.touch_existing_with_timeout("a", trusted), Touched::Absent);
    /// set.touch("a");
    /// assert_eq!(set.touch_existing_with_timeout("a", trusted), Touched::Present);
    ///
    /// assert_eq!(reaper.reap().await.as_deref(), Some("a"));
    /// assert_eq!(start.elapsed(), Duration::from_secs(300));
    /// # }
    /// ```
    pub fn touch_existing_with_timeout<Q>(&self, key: &Q, timeout: Duration) -> Touched
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.touch_with(key, Some(timeout), |_| None)
    }

    /// Takes a key out and returns it, if it was in the set.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, idle::IdleSet};
    ///
    /// let (set, _reaper) = IdleSet::<String>::new(Duration::from_secs(30));
    /// set.touch("a");
    /// assert_eq!(set.remove("a").as_deref(), Some("a"));
    /// assert_eq!(set.remove("a"), None);
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<K>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.in_shard(key, |shard, digest| {
            shard.remove(digest, |other| other.borrow() == key)
        })
    }

    /// Whether a key is in the set. A key that is due is, until it comes out of the reaper.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, idle::IdleSet};
    ///
    /// let (set, _reaper) = IdleSet::<String>::new(Duration::from_secs(30));
    /// assert!(!set.contains("a"));
    /// set.touch("a");
    /// assert!(set.contains("a"));
    /// ```
    #[must_use]
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.tick_of(key).is_some()
    }

    /// The deadline of a key, rounded up to a tick, if it is in the set: when it comes out unless
    /// it is touched, it is [shed](super::Reaper::shed), or the [pressure](Self::set_pressure) changes.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, idle::IdleSet};
    ///
    /// let (set, _reaper) = IdleSet::<String>::new(Duration::from_secs(30));
    /// let touched = Instant::now();
    /// set.touch("a");
    /// assert!(set.deadline("a").unwrap() >= touched + Duration::from_secs(30));
    /// assert_eq!(set.deadline("b"), None);
    /// ```
    #[must_use]
    pub fn deadline<Q>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let deadline = self.tick_of(key)?;
        Some(self.handle.core.clock.saturating_instant(deadline))
    }

    /// Touches a key and sets its timeout to `given`, if there is one. If the set has no such key, inserts the
    /// key that `make` returns, if any.
    #[inline]
    fn touch_with<Q>(
        &self,
        key: &Q,
        given: Option<Duration>,
        make: impl FnOnce(&Q) -> Option<K>,
    ) -> Touched
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let core = &*self.handle.core;
        let clock = &core.clock;
        let digest = self.digest_of(key);
        let timeout = given.map(nanos);
        // The clock is read after the hash: the processor then looks the key up while it computes the
        // time. That takes 42 ns among a thousand keys, and 51 in the other order. A touch that gives
        // a timeout reads the clock under the lock. Of two such touches of one key, the timeout of the
        // later one counts, so it must have the later time.
        let now = match given {
            None => Some(clock.read_for(self.handle.timeout)),
            Some(_) => None,
        };
        let deadline = |timeout| {
            let now = now.unwrap_or_else(|| clock.read_for(given.unwrap_or_default()));
            clock.deadline_after(now, timeout)
        };
        let is_it = |other: &K| other.borrow() == key;
        let (shards, pace) = (&core.shards, &core.pace);
        let mut outcome = shards.with(digest, |shard| {
            shard.touch(pace, digest, is_it, timeout, deadline)
        });
        // The key is made without the lock, as that is user code. Other threads may insert theirs in
        // the meantime.
        let mut new = None;
        if outcome == Outcome::Absent {
            let usual = nanos(self.handle.timeout);
            new = make(key);
            if new.is_some() {
                outcome = shards.with(digest, |shard| {
                    shard.touch_or_insert(pace, digest, is_it, timeout, deadline, &mut new, usual)
                });
            }
        }
        if let Outcome::Earlier(next) | Outcome::Inserted(next) = outcome {
            core.follow_up(digest, next);
        }
        // A key that was not inserted is dropped last, as its `Drop` may panic: `tests/idle/foreign.rs`,
        // `a_key_whose_drop_panics_makes_no_other_key_late`.
        drop(new);
        match outcome {
            Outcome::Inserted(_) => Touched::Inserted,
            Outcome::PutOff | Outcome::Earlier(_) => Touched::Present,
            Outcome::Absent => Touched::Absent,
            Outcome::Closed => Touched::Closed,
        }
    }

    /// Returns the tick of a key's effective deadline, if the key is in the set.
    fn tick_of<Q>(&self, key: &Q) -> Option<Tick>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let pace = &self.handle.core.pace;
        self.in_shard(key, |shard, digest| {
            shard.deadline(pace, digest, |other| other.borrow() == key)
        })
    }

    /// Does something in the shard that has a key.
    fn in_shard<Q, R>(
        &self,
        key: &Q,
        mut operation: impl FnMut(&Shard<K>, Digest) -> Result<R, Retry>,
    ) -> R
    where
        Q: Hash + ?Sized,
    {
        let digest = self.digest_of(key);
        let shards = &self.handle.core.shards;
        shards.with(digest, |shard| operation(shard, digest))
    }

    /// Returns what the set keeps of a key's hash. No other function hashes keys.
    #[inline]
    fn digest_of<Q>(&self, key: &Q) -> Digest
    where
        Q: Hash + ?Sized,
    {
        Digest::of(self.handle.hasher.hash_one(key))
    }
}

impl<K, S> Clone for IdleSet<K, S> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
        }
    }
}

impl<K, S> fmt::Debug for IdleSet<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleSet")
            .field("timeout", &self.timeout())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<K, S> Drop for Handle<K, S> {
    fn drop(&mut self) {
        self.core.abandon();
    }
}

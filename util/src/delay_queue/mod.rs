//! A queue that returns each element after its deadline.
//!
//! [`DelayQueue`] has the methods of tokio-util's `DelayQueue`. The documentation of the type lists the
//! differences.
//!
//! # Implementation
//!
//! The queue is a timing wheel without shards or locks, and one [`Sleep`](tokio_wheel::Sleep) that wakes the polling task at
//! the next expiration. An expired element stays in the wheel until a poll returns it, and can still be removed or reset until
//! then.

// The states of the polling task:
//
// | state | value of `armed` | value of `waker` | event that ends the state |
// |---|---|---|---|
// | idle | tick 0: no deadline is earlier | unused | a poll finds no expired element |
// | waiting | the deadline of the sleep | the waker of the last poll | the sleep elapses, an earlier deadline is set, or the last element is removed |
// | empty | the latest possible tick | the waker of the last poll | an element is inserted |

mod expired;

pub use expired::{Expired, Key};

use std::{
    fmt,
    future::poll_fn,
    mem,
    ops::ControlFlow,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use bounded_wheel::{CHUNK, NEVER, Order, Tick, Wheel};
use futures_core::Stream;
use tokio::{task::coop, time::Instant};
use tokio_wheel::{Duration, Timer};

use crate::{
    ground::{give_way::Yields, tick_sleep::TickSleep, waker},
    limit::nanos,
};

/// The number of steps of the wheel between two readings of the clock. These steps take at most a few tenths
/// of a millisecond.
const STEPS: usize = 1_024;

/// The largest number of rounds in one poll. A round takes [`STEPS`] steps. A poll also ends after [`TURN`].
///
/// On a busy runtime, the next poll comes milliseconds later. If each poll did only one
/// round, the elements of a large queue would be late by many polls.
const ROUNDS: usize = 16;

/// If a poll has found no element after this time, it starts no further round.
const TURN: Duration = Duration::from_millis(1);

/// A queue that returns each element after its deadline.
///
/// [`insert`](Self::insert) and [`insert_at`](Self::insert_at) return a [`Key`], with which you can remove
/// or reset the element while it is in the queue. [`expired`](Self::expired),
/// [`poll_expired`](Self::poll_expired) and the [`Stream`] return expired elements.
///
/// The queue returns no element before its deadline. It rounds each deadline up to a tick. It returns
/// elements in the order of the rounded deadlines. Elements with equal rounded deadlines may be returned in
/// any order.
///
/// An empty queue returns `None`, but is not finished: it returns elements again after the next insertion.
///
/// # Implementation
///
/// The queue is a hierarchical timing wheel (Varghese and Lauck, 1987 and 1997). Inserting, removing and
/// resetting cost O(1). A reset to a later deadline only stores the new deadline.
///
/// The queue allocates memory in chunks of 256 elements. It frees a chunk when its last element is removed, except the
/// chunk that receives the next insertions. Elements never move.
/// [`reserve`](Self::reserve) keeps memory allocated.
///
/// # Which timer it uses
///
/// A queue that [`with_timer`](Self::with_timer) created uses the timer of that call. It rounds deadlines up to 1/64 ms, or
/// to the timer's tick if that is finer, and expires an element when a sleep of the timer would be ready. Any other queue
/// uses the default timer of the runtime that polls it, and has a tick of 1 ms. A queue can be created and filled outside
/// of a runtime.
///
/// # Differences from `tokio_util::time::DelayQueue`
///
/// All methods have the same names. This queue also has [`expired`](Self::expired), which needs no `StreamExt`,
/// [`try_deadline`](Self::try_deadline), [`try_reset`](Self::try_reset), [`try_reset_at`](Self::try_reset_at) and
/// [`with_timer`](Self::with_timer).
///
/// | | tokio-util | this queue |
/// |---|---|---|
/// | the [`Key`] of an element that is no longer in the queue | may name a later element | never names a later element |
/// | deadlines more than two years ahead | panic | work |
/// | the largest number of elements | 2<sup>30</sup> - 1 | 2<sup>31</sup> |
/// | `Debug` | shows the elements, which must implement it | does not show the elements |
/// | memory | stays allocated; `shrink_to_fit` frees what is after the last element, `compact` moves elements | comes in chunks of 256 elements, and an empty chunk is freed, unless it is reserved or takes the next elements; [`shrink_to_fit`](Self::shrink_to_fit) and [`compact`](Self::compact) free each empty chunk; `capacity` is a multiple of 256 and may fall |
/// | `reserve`, `with_capacity` | allocate | allocate nothing at first, and keep what is allocated later |
/// | `reset` to a later deadline | moves the element | moves the element at its old deadline, and may wake the waiting task early |
/// | `reset` to an earlier deadline | wakes the waiting task at that deadline | wakes the task at once |
/// | `remove` of the element for which a task waits | does not wake the task while other elements exist | may wake the task at the deadline of the removed element |
/// | a new earliest element in a queue that is not empty | wakes the task | wakes the task only if its last poll was pending |
/// | `peek` after elements were reset to a later deadline | finds the next element at once | looks at each of them until their old deadlines have passed |
/// | very many elements that expire at once | one poll may move all of them between levels | a poll works for about 1 ms at most, and then lets other tasks run |
/// | elements that have expired when they are inserted | do not use the task's budget | use the task's budget |
/// | a waker that panics when a method wakes it | the method panics, and its key or element is lost | the method succeeds |
/// | a queue whose runtime has shut down | returns its next element early | continues on the runtime that polls it next |
///
/// # Examples
///
/// A cache whose entries live for 30 s:
///
/// ```
/// use std::collections::HashMap;
/// use tokio_wheel::{Duration, Instant};
/// use tokio_wheel_util::delay_queue::{self, DelayQueue};
///
/// const TTL: Duration = Duration::from_secs(30);
///
/// #[derive(Default)]
/// struct Cache {
///     entries: HashMap<String, (u32, delay_queue::Key)>,
///     expirations: DelayQueue<String>,
/// }
///
/// impl Cache {
///     fn insert(&mut self, name: &str, value: u32) {
///         let key = self.expirations.insert(name.to_owned(), TTL);
///         if let Some((_, replaced)) = self.entries.insert(name.to_owned(), (value, key)) {
///             self.expirations.remove(&replaced);
///         }
///     }
///
///     async fn expire(&mut self) {
///         while let Some(expired) = self.expirations.expired().await {
///             self.entries.remove(expired.get_ref());
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let mut cache = Cache::default();
/// cache.insert("a", 1);
/// cache.insert("a", 2);
/// assert_eq!((cache.entries.len(), cache.expirations.len()), (1, 1));
///
/// let start = Instant::now();
/// cache.expire().await;
/// assert!(start.elapsed() >= TTL);
/// assert!(cache.entries.is_empty());
/// # }
/// ```
#[must_use = "a queue does nothing unless it is polled"]
pub struct DelayQueue<T> {
    wheel: Wheel<T>,
    sleep: TickSleep,
    /// The tick for which the polling task waits. A call that sets an earlier deadline must wake this task.
    armed: Tick,
    /// The waker of the last poll, or a waker without effect.
    waker: Waker,
    yields: Yields,
    /// The queue does not free the memory for this number of elements: see [`reserve`](Self::reserve).
    reserved: usize,
}

impl<T> DelayQueue<T> {
    /// Creates an empty queue. It uses the default timer of the runtime that polls it.
    ///
    /// # Examples
    ///
    /// ```
    /// let queue = tokio_wheel_util::delay_queue::DelayQueue::<u32>::new();
    /// assert_eq!((queue.len(), queue.capacity()), (0, 0));
    /// ```
    pub fn new() -> Self {
        Self::on(None)
    }

    /// Creates an empty queue with reserved memory for at least `capacity` elements.
    ///
    /// See [`reserve`](Self::reserve).
    ///
    /// # Panics
    ///
    /// Panics if `capacity` is more than 2<sup>31</sup>.
    ///
    /// # Examples
    ///
    /// ```
    /// let queue = tokio_wheel_util::delay_queue::DelayQueue::<u32>::with_capacity(100);
    /// assert!(queue.capacity() >= 100);
    /// ```
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut queue = Self::new();
        queue.reserve(capacity);
        queue
    }

    /// Creates an empty queue that uses `timer`. Any executor may poll the queue.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Timer};
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    /// let timer = runtime.block_on(async { Timer::current() });
    ///
    /// let mut queue = DelayQueue::with_timer(&timer);
    /// queue.insert("a", Duration::from_millis(5));
    /// let expired = tokio_test::block_on(queue.expired());
    /// assert_eq!(expired.unwrap().into_inner(), "a");
    /// ```
    pub fn with_timer(timer: &Timer) -> Self {
        Self::on(Some(timer))
    }

    fn on(timer: Option<&Timer>) -> Self {
        let sleep = TickSleep::of(timer);
        let mut wheel = Wheel::new(0);
        wheel.catch_up(sleep.clock.now());
        Self {
            wheel,
            sleep,
            armed: 0,
            waker: Waker::noop().clone(),
            yields: Yields::default(),
            reserved: 0,
        }
    }

    /// Inserts an element with the deadline `when`. If this deadline has passed, the element expires at once.
    ///
    /// If `when` becomes the earliest deadline, this call wakes the task that waits for the queue.
    ///
    /// # Panics
    ///
    /// Panics if the queue holds 2<sup>31</sup> elements.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert_at("a", Instant::now() + Duration::from_secs(5));
    /// assert_eq!(queue.remove(&key).into_inner(), "a");
    /// # }
    /// ```
    #[track_caller]
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
        let deadline = self.sleep.clock.deadline(when);
        self.insert_tick(value, deadline)
    }

    /// Inserts an element that expires after `timeout`: see [`insert_at`](Self::insert_at).
    ///
    /// # Panics
    ///
    /// Panics if the queue holds 2<sup>31</sup> elements.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut queue = DelayQueue::new();
    /// queue.insert("a", Duration::from_secs(5));
    /// queue.insert("never", Duration::MAX);
    /// assert_eq!(queue.len(), 2);
    /// # }
    /// ```
    #[track_caller]
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        let deadline = self.deadline_after(timeout);
        self.insert_tick(value, deadline)
    }

    /// Waits until an element expires. Removes the element from the queue and returns it.
    ///
    /// Returns `None` at once if the queue is empty.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If another branch of a `select!` completes first, no element is lost.
    ///
    /// # Panics
    ///
    /// Panics in the cases that [`poll_expired`](Self::poll_expired) lists.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut queue = DelayQueue::new();
    /// queue.insert("late", Duration::from_secs(2));
    /// queue.insert("soon", Duration::from_secs(1));
    ///
    /// assert_eq!(queue.expired().await.unwrap().into_inner(), "soon");
    /// assert_eq!(queue.expired().await.unwrap().into_inner(), "late");
    /// assert!(queue.expired().await.is_none());
    /// # }
    /// ```
    pub async fn expired(&mut self) -> Option<Expired<T>> {
        poll_fn(|cx| self.poll_expired(cx)).await
    }

    /// Polls for an expired element. Removes the element from the queue and returns it.
    ///
    /// Returns `Ready(None)` if the queue is empty. After `Pending`, the queue wakes the task of the last
    /// call in these cases:
    ///
    /// * The earliest deadline expires.
    /// * An insertion or a reset sets a new earliest deadline.
    /// * The last element is removed.
    ///
    /// The queue may also wake the task spuriously.
    ///
    /// # Panics
    ///
    /// If the queue is empty or has an expired element, this method does not panic. Otherwise it panics in
    /// these cases:
    ///
    /// * The queue uses the default timer, and a thread polls it outside of a runtime.
    /// * The queue uses the default timer, and time is not enabled on the polling runtime.
    /// * The queue was created by [`with_timer`](Self::with_timer), and its timer has shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let mut queue = DelayQueue::new();
    /// queue.insert("late", Duration::from_secs(2));
    /// queue.insert("soon", Duration::from_secs(1));
    ///
    /// let expired = poll_fn(|cx| queue.poll_expired(cx)).await.unwrap();
    /// assert_eq!(expired.into_inner(), "soon");
    /// # }
    /// ```
    // Without inlining, this function would return the element through memory. The caller could load the
    // element only after all earlier stores. One of these stores writes the links of a neighbor, and misses
    // the cache. The benchmark `compare -- ops --workload drain` removes a million elements from a queue. On
    // Zen 4 it takes 140 ms with inlining, and 200 ms without inlining.
    #[inline(always)]
    #[track_caller]
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        if self.is_empty() {
            self.wait(NEVER, cx.waker());
            return Poll::Ready(None);
        }
        let budget = ready!(coop::poll_proceed(cx));
        if self.len() == 1 {
            // If this poll removes the element, it leaves an empty queue. Perhaps the owner does not poll that
            // queue again before the next insertion. The waker may panic, so this comes before the removal.
            self.waker.clone_from(cx.waker());
        }
        let (mut steps, mut rounds) = (STEPS, 0);
        let mut began = None;
        let mut now = self.wheel.now();
        loop {
            let mut expired = None;
            let advance = self.wheel.advance(now, Order::Strict, &mut steps, |entry| {
                expired = Some(entry);
                ControlFlow::Break(())
            });
            if let Some(entry) = expired {
                self.armed = if self.is_empty() { NEVER } else { 0 };
                budget.made_progress();
                return Poll::Ready(Some(self.leave(entry)));
            }
            if advance.is_break() {
                let began = *began.get_or_insert_with(std::time::Instant::now);
                rounds += 1;
                if rounds < ROUNDS && began.elapsed() < TURN {
                    steps = STEPS;
                    continue;
                }
                self.yields.end_poll(cx);
                return Poll::Pending;
            }
            let next = self
                .wheel
                .next_expiration()
                .expect("the queue is not empty");
            now = self.sleep.clock.now();
            if now < next && self.sleep.poll(next, cx).is_pending() {
                self.wait(next, cx.waker());
                return Poll::Pending;
            }
            now = now.max(next);
        }
    }

    /// Removes an element and returns it.
    ///
    /// # Panics
    ///
    /// Panics if the element is no longer in the queue. [`try_remove`](Self::try_remove) does not panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(5));
    /// assert_eq!(queue.remove(&key).into_inner(), "a");
    /// assert!(queue.is_empty());
    /// ```
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        present(self.try_remove(key), key, "try_remove")
    }

    /// Removes an element and returns it. Returns `None` if the element is no longer in the queue.
    ///
    /// If the queue becomes empty, this call wakes the task that waits for the queue.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(5));
    /// assert_eq!(queue.try_remove(&key).unwrap().into_inner(), "a");
    /// assert!(queue.try_remove(&key).is_none());
    /// ```
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let removed = self.wheel.remove(key.0)?;
        if self.is_empty() {
            self.wake();
        }
        Some(self.leave(removed))
    }

    /// Returns the deadline of an element, rounded up to a tick.
    ///
    /// # Panics
    ///
    /// Panics if the element is no longer in the queue. [`try_deadline`](Self::try_deadline) does not panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let soon = queue.insert("soon", Duration::from_secs(5));
    /// let late = queue.insert("late", Duration::from_secs(6));
    /// assert!(queue.deadline(&soon) < queue.deadline(&late));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn deadline(&self, key: &Key) -> Instant {
        present(self.try_deadline(key), key, "try_deadline")
    }

    /// Returns the deadline of an element, rounded up to a tick. Returns `None` if the element is no longer in
    /// the queue.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let deadline = Instant::now() + Duration::from_secs(5);
    /// let key = queue.insert_at("a", deadline);
    /// assert!(queue.try_deadline(&key).unwrap() >= deadline);
    /// queue.clear();
    /// assert_eq!(queue.try_deadline(&key), None);
    /// ```
    #[must_use]
    pub fn try_deadline(&self, key: &Key) -> Option<Instant> {
        let deadline = self.wheel.deadline(key.0)?;
        Some(self.sleep.clock.saturating_instant(deadline))
    }

    /// Sets the deadline of an element to `when`. If this deadline has passed, the element expires at once.
    ///
    /// If `when` becomes the earliest deadline, this call wakes the task that waits for the queue.
    ///
    /// # Panics
    ///
    /// Panics if the element is no longer in the queue. [`try_reset_at`](Self::try_reset_at) does not panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(5));
    /// let deadline = Instant::now() + Duration::from_secs(30);
    /// queue.reset_at(&key, deadline);
    /// assert!(queue.deadline(&key) >= deadline);
    /// ```
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, when: Instant) {
        let reset = self.try_reset_at(key, when);
        present(reset.then_some(()), key, "try_reset_at");
    }

    /// Sets the deadline of an element to the current time plus `timeout`.
    ///
    /// See [`reset_at`](Self::reset_at).
    ///
    /// # Panics
    ///
    /// Panics if the element is no longer in the queue. [`try_reset`](Self::try_reset) does not panic.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(5));
    /// queue.reset(&key, Duration::from_secs(10));
    /// queue.expired().await;
    /// assert!(start.elapsed() >= Duration::from_secs(10));
    /// # }
    /// ```
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        let reset = self.try_reset(key, timeout);
        present(reset.then_some(()), key, "try_reset");
    }

    /// Sets the deadline of an element to `when`. Returns `false` if the element is no longer in the queue.
    ///
    /// Otherwise this method does what [`reset_at`](Self::reset_at) does, and returns `true`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(5));
    /// assert!(queue.try_reset_at(&key, Instant::now()));
    /// queue.remove(&key);
    /// assert!(!queue.try_reset_at(&key, Instant::now()));
    /// ```
    #[must_use = "`false` means that no element was reset"]
    pub fn try_reset_at(&mut self, key: &Key, when: Instant) -> bool {
        let deadline = self.sleep.clock.deadline(when);
        self.reset_tick(key, deadline)
    }

    /// Sets the deadline of an element to the current time plus `timeout`. Returns `false` if the element is
    /// no longer in the queue.
    ///
    /// Otherwise this method does what [`reset`](Self::reset) does, and returns `true`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(5));
    /// assert!(queue.try_reset(&key, Duration::from_secs(10)));
    /// queue.remove(&key);
    /// assert!(!queue.try_reset(&key, Duration::from_secs(10)));
    /// ```
    #[must_use = "`false` means that no element was reset"]
    pub fn try_reset(&mut self, key: &Key, timeout: Duration) -> bool {
        let deadline = self.deadline_after(timeout);
        self.reset_tick(key, deadline)
    }

    /// Returns the key of the element with the earliest deadline. This deadline may have passed. Returns
    /// `None` if the queue is empty.
    ///
    /// The cost grows with the number of elements whose deadline is close to the earliest deadline. It also
    /// grows with the number of elements that had such a deadline before a reset. If a queue has 100,000
    /// elements, and all were reset to later deadlines, this method visits all of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// assert_eq!(queue.peek(), None);
    /// queue.insert("late", Duration::from_secs(10));
    /// let soon = queue.insert("soon", Duration::from_secs(5));
    /// assert_eq!(queue.peek(), Some(soon));
    /// ```
    #[must_use]
    pub fn peek(&self) -> Option<Key> {
        self.wheel.first().map(Key)
    }

    /// Removes and drops all elements.
    ///
    /// If the queue had elements, this call wakes the task that waits for the queue.
    ///
    /// # Panics
    ///
    /// Panics if dropping an element panics.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// queue.insert("a", Duration::from_secs(5));
    /// queue.clear();
    /// assert!(queue.is_empty());
    /// ```
    pub fn clear(&mut self) {
        if self.is_empty() {
            return;
        }
        // Dropping an element may panic, so this code wakes the task first. The woken task cannot poll the queue
        // before this call has returned.
        self.wake();
        self.wheel.clear();
        self.wheel.free_unused(self.reserved);
    }

    /// Returns the number of elements. Expired elements count until a poll returns them.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// queue.insert("a", Duration::ZERO);
    /// assert_eq!(queue.len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Returns whether the queue has no elements.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// assert!(queue.is_empty());
    /// queue.insert("a", Duration::ZERO);
    /// assert!(!queue.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of elements for which memory is allocated or [reserved](Self::reserve).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// queue.insert("a", Duration::ZERO);
    /// assert!(queue.capacity() >= 1);
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        let reserved = self.reserved.next_multiple_of(CHUNK);
        self.wheel.capacity().max(reserved)
    }

    /// Reserves memory for `additional` more elements.
    ///
    /// The queue allocates the reserved memory only when it needs the memory, for 256 elements at a time.
    /// When elements are removed, the queue keeps the reserved memory.
    /// [`shrink_to_fit`](Self::shrink_to_fit) and [`compact`](Self::compact) end the reservation. This call
    /// itself allocates nothing, so its duration does not depend on `additional`.
    ///
    /// # Panics
    ///
    /// Panics if the sum of `additional` and the number of elements exceeds 2<sup>31</sup>.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut queue = tokio_wheel_util::delay_queue::DelayQueue::<u32>::new();
    /// queue.reserve(10);
    /// assert!(queue.capacity() >= 10);
    /// ```
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        check_len(self.len(), additional);
        self.reserved = self.reserved.max(self.len() + additional);
    }

    /// Frees the memory of all chunks that have no element, and ends all reservations.
    ///
    /// A chunk is the memory for 256 elements. Elements do not move, so a chunk with one element stays
    /// allocated.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut queue = tokio_wheel_util::delay_queue::DelayQueue::<u32>::with_capacity(10);
    /// queue.shrink_to_fit();
    /// assert_eq!(queue.capacity(), 0);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.reserved = 0;
        self.wheel.shrink_to_fit();
    }

    /// Same as [`shrink_to_fit`](Self::shrink_to_fit). It exists because tokio-util's queue has both methods.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut queue = tokio_wheel_util::delay_queue::DelayQueue::<u32>::with_capacity(10);
    /// queue.compact();
    /// assert_eq!(queue.capacity(), 0);
    /// ```
    pub fn compact(&mut self) {
        self.shrink_to_fit();
    }

    /// Returns the first tick that is not before the end of `timeout`, which starts now.
    #[inline]
    fn deadline_after(&self, timeout: Duration) -> Tick {
        let clock = &self.sleep.clock;
        clock.deadline_after(clock.elapsed(), nanos(timeout))
    }

    /// Inserts an element that expires at the tick `deadline`.
    #[inline]
    #[track_caller]
    fn insert_tick(&mut self, value: T, deadline: Tick) -> Key {
        check_len(self.len(), 1);
        // Elements stay in order.
        let deadline = deadline.max(self.wheel.now());
        let key = self.wheel.insert(deadline, value);
        self.wake_for(deadline);
        Key(key)
    }

    /// Sets the deadline of an element. Returns `false` if the element is no longer in the queue.
    #[inline]
    fn reset_tick(&mut self, key: &Key, deadline: Tick) -> bool {
        let deadline = deadline.max(self.wheel.now());
        let present = self.wheel.reset(key.0, deadline);
        if present {
            self.wake_for(deadline);
        }
        present
    }

    /// Keeps `waker`. A later call that sets a deadline before `until` will wake this waker.
    fn wait(&mut self, until: Tick, waker: &Waker) {
        self.armed = until;
        self.waker.clone_from(waker);
    }

    /// Wakes the waiting task if `deadline` is earlier than the tick for which that task waits.
    #[inline]
    fn wake_for(&mut self, deadline: Tick) {
        if deadline < self.armed {
            self.wake();
        }
    }

    #[cold]
    fn wake(&mut self) {
        self.armed = 0;
        waker::wake(mem::replace(&mut self.waker, Waker::noop().clone()));
    }

    /// Converts an entry that has left the wheel to an [`Expired`]. Also frees unused memory.
    #[inline(always)]
    fn leave(&mut self, entry: bounded_wheel::Removed<T>) -> Expired<T> {
        self.wheel.free_unused(self.reserved);
        Expired {
            data: entry.value,
            deadline: self.sleep.clock.saturating_instant(entry.deadline),
            key: Key(entry.key),
        }
    }
}

/// Panics if a queue with `len` elements cannot hold `additional` more elements.
#[track_caller]
fn check_len(len: usize, additional: usize) {
    const MOST: usize = Wheel::<()>::MAX_ENTRIES;
    assert!(
        additional <= MOST - len,
        "max queue capacity exceeded: a `DelayQueue` holds at most {MOST} elements, got {additional} in addition to {len}"
    );
}

/// Returns the value in `found`. Panics if `found` is `None`, because `key` names no element.
#[inline]
#[track_caller]
fn present<R>(found: Option<R>, key: &Key, instead: &str) -> R {
    match found {
        Some(found) => found,
        None => panic!(
            "invalid key: {key:?} names no element of this `DelayQueue`; `{instead}` accepts the key of an \
             element that has left"
        ),
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

// No element is pinned.
impl<T> Unpin for DelayQueue<T> {}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    #[track_caller]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
    }
}

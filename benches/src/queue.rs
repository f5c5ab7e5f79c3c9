//! Queues of delayed elements, and operations on them. The queues are this crate's [`DelayQueue`],
//! tokio-util's, two wheels that run no task, and a sorted map.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    hint::black_box,
    rc::Rc,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use hierarchical_hash_wheel_timer::wheels::{
    Skip,
    cancellable::{CancellableTimerEntry, QuadWheelWithOverflow},
};
use tokio::runtime::{self, Runtime};
use tokio_wheel::DelayQueue;

use crate::random::Random;

/// Pending elements have random deadlines within this time. Elements inserted later have deadlines
/// beyond it.
const HORIZON: Duration = Duration::from_secs(3_600);

/// A queue under test. Callers give deadlines as delays, so that every queue reads the clock.
pub trait Queue {
    /// The name of the queue in tables and benchmark ids.
    const NAME: &'static str;
    /// The key that removes an element.
    type Key;

    /// Creates an empty queue.
    fn new() -> Self;

    /// Inserts an element that expires after the delay.
    fn insert(&mut self, value: u32, after: Duration) -> Self::Key;

    /// Removes a pending element.
    fn remove(&mut self, key: Self::Key);

    /// Registers the waker of a task that waits for the queue, if the queue supports waiting.
    fn wait(&mut self) {}

    /// Removes `count` expired elements.
    fn drain(&mut self, count: usize) -> impl Future<Output = ()>;
}

/// Implements the polling, which is the same for both types called `DelayQueue`.
macro_rules! by_polling {
    () => {
        fn wait(&mut self) {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(self.poll_expired(&mut cx).is_pending());
        }

        async fn drain(&mut self, count: usize) {
            for _ in 0..count {
                let expired = poll_fn(|cx| self.poll_expired(cx)).await;
                black_box(expired.expect("the queue ran empty").into_inner());
            }
        }
    };
}

impl Queue for DelayQueue<u32> {
    const NAME: &'static str = "tokio_wheel";
    type Key = tokio_wheel::delay_queue::Key;

    fn new() -> Self {
        DelayQueue::new()
    }

    fn insert(&mut self, value: u32, after: Duration) -> Self::Key {
        DelayQueue::insert(self, value, after)
    }

    fn remove(&mut self, key: Self::Key) {
        black_box(DelayQueue::remove(self, &key));
    }

    by_polling!();
}

impl Queue for tokio_util::time::DelayQueue<u32> {
    const NAME: &'static str = "tokio_util";
    type Key = tokio_util::time::delay_queue::Key;

    fn new() -> Self {
        tokio_util::time::DelayQueue::new()
    }

    fn insert(&mut self, value: u32, after: Duration) -> Self::Key {
        tokio_util::time::DelayQueue::insert(self, value, after)
    }

    fn remove(&mut self, key: Self::Key) {
        black_box(tokio_util::time::DelayQueue::remove(self, &key));
    }

    by_polling!();
}

impl Queue for nexus_timer::Wheel<u32> {
    const NAME: &'static str = "nexus_timer";
    type Key = nexus_timer::TimerHandle<u32>;

    fn new() -> Self {
        nexus_timer::Wheel::unbounded(4_096, Instant::now())
    }

    fn insert(&mut self, value: u32, after: Duration) -> Self::Key {
        self.schedule(Instant::now() + after, value)
    }

    fn remove(&mut self, key: Self::Key) {
        black_box(self.cancel(key));
    }

    async fn drain(&mut self, count: usize) {
        let mut values = Vec::new();
        assert_eq!(self.poll(Instant::now(), &mut values), count);
        black_box(values);
    }
}

/// The cancelable wheel of `hierarchical_hash_wheel_timer`, which counts milliseconds since its
/// creation. A removed element loses its value but stays in its slot until it expires.
pub struct HashWheel {
    wheel: QuadWheelWithOverflow<Entry>,
    start: Instant,
    /// How many milliseconds the wheel has counted.
    elapsed: u64,
    next: u64,
}

/// The number of an element in a [`HashWheel`], and its value.
#[derive(Debug)]
struct Entry(u64, u32);

impl CancellableTimerEntry for Entry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.0
    }
}

impl Queue for HashWheel {
    const NAME: &'static str = "hash_wheel";
    type Key = u64;

    fn new() -> Self {
        Self {
            wheel: QuadWheelWithOverflow::new(),
            start: Instant::now(),
            elapsed: 0,
            next: 0,
        }
    }

    fn insert(&mut self, value: u32, after: Duration) -> Self::Key {
        self.next += 1;
        let entry = Rc::new(Entry(self.next, value));
        let delay = self.start.elapsed() + after - Duration::from_millis(self.elapsed);
        self.wheel
            .insert_ref_with_delay(entry, delay)
            .expect("the deadline has passed");
        self.next
    }

    fn remove(&mut self, key: Self::Key) {
        self.wheel.cancel(&key).expect("no such element");
    }

    async fn drain(&mut self, count: usize) {
        let now = self.start.elapsed().as_millis() as u64;
        let mut drained = 0;
        while self.elapsed < now {
            let ahead = now - self.elapsed;
            let idle = match self.wheel.can_skip() {
                Skip::Millis(idle) => u64::from(idle).min(ahead - 1),
                Skip::Empty => ahead - 1,
                Skip::None => 0,
            };
            self.wheel.skip(idle as u32);
            for entry in self.wheel.tick() {
                black_box(entry.1);
                drained += 1;
            }
            self.elapsed += idle + 1;
        }
        assert_eq!(drained, count);
    }
}

/// A map sorted by deadline, and by a number that distinguishes equal deadlines.
pub struct SortedMap {
    values: BTreeMap<(Instant, u64), u32>,
    next: u64,
}

impl Queue for SortedMap {
    const NAME: &'static str = "btree_map";
    type Key = (Instant, u64);

    fn new() -> Self {
        let values = BTreeMap::new();
        Self { values, next: 0 }
    }

    fn insert(&mut self, value: u32, after: Duration) -> Self::Key {
        self.next += 1;
        let key = (Instant::now() + after, self.next);
        self.values.insert(key, value);
        key
    }

    fn remove(&mut self, key: Self::Key) {
        black_box(self.values.remove(&key));
    }

    async fn drain(&mut self, count: usize) {
        let now = Instant::now();
        for _ in 0..count {
            let first = self.values.first_entry().filter(|e| e.key().0 <= now);
            black_box(first.expect("the map ran empty").remove());
        }
    }
}

/// Creates a runtime. Some queues must be created within one.
pub fn runtime() -> Runtime {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_time().build().expect("no runtime")
}

/// A queue whose elements are pending for longer than a measurement lasts.
pub struct Crowded<Q: Queue> {
    queue: Q,
    keys: Vec<Q::Key>,
    random: Random,
}

impl<Q: Queue> Crowded<Q> {
    /// Creates a queue with `crowd` pending elements.
    pub fn new(crowd: usize) -> Self {
        let (mut queue, mut random) = (Q::new(), Random::new(0));
        let pending = Duration::from_secs(60);
        let keys = (0..crowd)
            .map(|n| queue.insert(n as u32, pending + random.delay(HORIZON)))
            .collect();
        // A task waits for the queue, as in a real program.
        queue.wait();
        Self {
            queue,
            keys,
            random,
        }
    }

    /// Inserts one more element and removes it.
    pub fn insert_remove(&mut self) {
        let key = self.queue.insert(0, HORIZON + self.random.delay(HORIZON));
        self.queue.remove(key);
    }

    /// Removes a random element and inserts another one.
    pub fn replace(&mut self) {
        let chosen = self.random.below(self.keys.len() as u64) as usize;
        self.queue.remove(self.keys.swap_remove(chosen));
        let key = self.queue.insert(0, HORIZON + self.random.delay(HORIZON));
        self.keys.push(key);
    }
}

impl<Q: Queue> Drop for Crowded<Q> {
    fn drop(&mut self) {
        // Some queues must release their elements before their keys are dropped.
        for key in self.keys.drain(..) {
            self.queue.remove(key);
        }
    }
}

/// Returns a queue whose elements have just expired, and their keys.
pub fn due<Q: Queue>(crowd: usize) -> (Q, Vec<Q::Key>) {
    // More time than the insertion of all elements takes.
    let lead = Duration::from_nanos(300) * crowd as u32;
    let (mut queue, mut random) = (Q::new(), Random::new(0));
    let keys = (0..crowd)
        .map(|n| queue.insert(n as u32, lead + random.delay(lead)))
        .collect();
    let all_due = Instant::now() + 2 * lead + Duration::from_millis(2);
    while Instant::now() < all_due {
        std::hint::spin_loop();
    }
    (queue, keys)
}

//! Queues of delayed elements: this crate's [`DelayQueue`], tokio-util's, a wheel, and a sorted map.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    hint::black_box,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use fastrand::Rng;
use tokio::runtime::{self, Runtime};
use tokio_util::time as tokio_util;
use tokio_wheel_util::delay_queue::{self, DelayQueue};

/// Pending elements have random deadlines within this time, and elements inserted later beyond it.
const HORIZON: Duration = Duration::from_secs(3_600);

/// A queue under test. Callers give deadlines as delays, so that every queue reads the clock.
pub trait Queue {
    const NAME: &'static str;
    type Key;

    fn new() -> Self;

    fn insert(&mut self, value: u32, after: Duration) -> Self::Key;

    fn remove(&mut self, key: Self::Key);

    /// Registers the waker of a task that waits for the queue, if the queue supports waiting.
    fn wait(&mut self) {}

    fn drain(&mut self, count: usize) -> impl Future<Output = ()>;
}

/// Implements the trait for the two types called `DelayQueue`, which have the same methods.
macro_rules! delay_queue {
    ($Queue:ty, $Key:ty, $name:literal) => {
        impl Queue for $Queue {
            const NAME: &'static str = $name;
            type Key = $Key;

            fn new() -> Self {
                Self::new()
            }

            fn insert(&mut self, value: u32, after: Duration) -> Self::Key {
                self.insert(value, after)
            }

            fn remove(&mut self, key: Self::Key) {
                black_box(self.remove(&key));
            }

            fn wait(&mut self) {
                let mut cx = Context::from_waker(Waker::noop());
                assert!(self.poll_expired(&mut cx).is_pending());
            }

            async fn drain(&mut self, count: usize) {
                for _ in 0..count {
                    black_box(poll_fn(|cx| self.poll_expired(cx)).await);
                }
            }
        }
    };
}

delay_queue!(DelayQueue<u32>, delay_queue::Key, "tokio_wheel");
delay_queue!(
    tokio_util::DelayQueue<u32>,
    tokio_util::delay_queue::Key,
    "tokio_util"
);

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
    // Dropped before its keys, because some queues must release their elements first.
    queue: Q,
    keys: Vec<Q::Key>,
    random: Rng,
    runtime: Runtime,
}

impl<Q: Queue> Crowded<Q> {
    pub fn new(crowd: usize) -> Self {
        let runtime = runtime();
        let entered = runtime.enter();
        let (mut queue, mut random) = (Q::new(), Rng::with_seed(0));
        let soonest = Duration::from_secs(60);
        let keys = (0..crowd as u32)
            .map(|n| queue.insert(n, soonest + delay(&mut random, HORIZON)))
            .collect();
        // A task waits for the queue, as in a real program.
        queue.wait();
        drop(entered);
        Self {
            queue,
            keys,
            random,
            runtime,
        }
    }

    pub fn insert_remove(&mut self) {
        let key = self.insert();
        self.queue.remove(key);
    }

    pub fn replace(&mut self) {
        let chosen = self.random.usize(..self.keys.len());
        self.queue.remove(self.keys.swap_remove(chosen));
        let key = self.insert();
        self.keys.push(key);
    }

    pub fn time(&mut self, iters: u64, operate: fn(&mut Self)) -> Duration {
        let runtime = self.runtime.handle().clone();
        let _entered = runtime.enter();
        let start = Instant::now();
        for _ in 0..iters {
            operate(self);
        }
        start.elapsed()
    }

    fn insert(&mut self) -> Q::Key {
        let after = HORIZON + delay(&mut self.random, HORIZON);
        self.queue.insert(0, after)
    }
}

pub fn drain<Q: Queue>(crowd: usize) -> Duration {
    let runtime = runtime();
    let _entered = runtime.enter();
    // More time than the insertion of all elements takes.
    let lead = Duration::from_nanos(300) * crowd as u32;
    let (mut queue, mut random) = (Q::new(), Rng::with_seed(0));
    let keys: Vec<_> = (0..crowd)
        .map(|n| queue.insert(n as u32, lead + delay(&mut random, lead)))
        .collect();
    let all_due = Instant::now() + 2 * lead + Duration::from_millis(2);
    while Instant::now() < all_due {
        std::hint::spin_loop();
    }
    let start = Instant::now();
    runtime.block_on(queue.drain(crowd));
    let elapsed = start.elapsed();
    drop(queue);
    drop(keys);
    elapsed
}

fn delay(random: &mut Rng, below: Duration) -> Duration {
    Duration::from_nanos(random.u64(..below.as_nanos() as u64))
}

//! Queues of delayed elements, over a crowd of pending ones: this crate's [`DelayQueue`] beside
//! tokio-util's, a wheel without cascade and a sorted map.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    hint::black_box,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use criterion::{
    BatchSize, BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group,
    criterion_main, measurement::WallTime,
};
use tokio::runtime::{self, Runtime};
use tokio_wheel::DelayQueue;

/// How many elements are pending.
const CROWDS: [usize; 2] = [100_000, 1_000_000];

/// Deadlines of pending elements are at random within this.
const HORIZON: Duration = Duration::from_secs(3_600);

/// A queue under test. Deadlines are given as delays, so that everyone reads the clock.
trait Queue {
    const NAME: &'static str;
    type Key;

    fn new() -> Self;
    fn insert(&mut self, value: u32, after: Duration) -> Self::Key;
    fn remove(&mut self, key: Self::Key);
    /// Leaves the waker of a task that waits for the queue, where there is such a thing.
    fn wait(&mut self) {}
    /// Takes out `count` elements, which are due.
    async fn drain(&mut self, count: usize);
}

/// Both types called `DelayQueue` are polled in the same way.
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

/// By deadline, and by a number that tells equal ones apart.
struct SortedMap {
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

/// Numbers without order, by xorshift.
struct Random(u64);

impl Random {
    fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn delay(&mut self, horizon: Duration) -> Duration {
        Duration::from_nanos(self.below(horizon.as_nanos() as u64))
    }
}

/// A runtime, which some of the queues ask for.
fn runtime() -> Runtime {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_time().build().expect("no runtime")
}

/// A queue with a crowd that is pending, and their keys.
fn crowded<Q: Queue>(crowd: usize, random: &mut Random) -> (Q, Vec<Q::Key>) {
    let mut queue = Q::new();
    let pending = Duration::from_secs(60);
    let keys = (0..crowd)
        .map(|n| queue.insert(n as u32, pending + random.delay(HORIZON)))
        .collect();
    // A task waits for the queue, as it does where it is used.
    queue.wait();
    (queue, keys)
}

fn insert_remove<Q: Queue>(group: &mut BenchmarkGroup<'_, WallTime>, crowd: usize) {
    let runtime = runtime();
    let _guard = runtime.enter();
    group.bench_function(Q::NAME, |b| {
        let mut random = Random::new();
        let (mut queue, keys) = crowded::<Q>(crowd, &mut random);
        b.iter(|| {
            let key = queue.insert(0, HORIZON + random.delay(HORIZON));
            queue.remove(key);
        });
        keys.into_iter().for_each(|key| queue.remove(key));
    });
}

fn replace<Q: Queue>(group: &mut BenchmarkGroup<'_, WallTime>, crowd: usize) {
    let runtime = runtime();
    let _guard = runtime.enter();
    group.bench_function(Q::NAME, |b| {
        let mut random = Random::new();
        let (mut queue, mut keys) = crowded::<Q>(crowd, &mut random);
        b.iter(|| {
            let chosen = random.below(crowd as u64) as usize;
            queue.remove(keys.swap_remove(chosen));
            keys.push(queue.insert(0, HORIZON + random.delay(HORIZON)));
        });
        keys.into_iter().for_each(|key| queue.remove(key));
    });
}

fn drain<Q: Queue>(group: &mut BenchmarkGroup<'_, WallTime>, crowd: usize) {
    let runtime = runtime();
    let _guard = runtime.enter();
    // More than it takes to insert them all.
    let lead = Duration::from_nanos(300) * crowd as u32;
    let due = || {
        let (mut queue, mut random) = (Q::new(), Random::new());
        let keys: Vec<_> = (0..crowd)
            .map(|n| queue.insert(n as u32, lead + random.delay(lead)))
            .collect();
        let all_due = Instant::now() + 2 * lead + Duration::from_millis(2);
        while Instant::now() < all_due {
            std::hint::spin_loop();
        }
        (queue, keys)
    };
    group.bench_function(Q::NAME, |b| {
        let drain = |(mut queue, keys): (Q, Vec<Q::Key>)| {
            runtime.block_on(queue.drain(crowd));
            (queue, keys)
        };
        b.iter_batched(due, drain, BatchSize::PerIteration);
    });
}

/// One of the functions above for every crowd and every queue.
macro_rules! compare {
    ($criterion:expr, $operation:ident, $configure:expr) => {
        for crowd in CROWDS {
            let name = format!("{}/{crowd}", stringify!($operation));
            let mut group = $criterion.benchmark_group(name);
            $configure(&mut group, crowd);
            $operation::<DelayQueue<u32>>(&mut group, crowd);
            $operation::<tokio_util::time::DelayQueue<u32>>(&mut group, crowd);
            $operation::<nexus_timer::Wheel<u32>>(&mut group, crowd);
            $operation::<SortedMap>(&mut group, crowd);
            group.finish();
        }
    };
}

fn queues(c: &mut Criterion) {
    let operation = |_: &mut BenchmarkGroup<'_, WallTime>, _| {};
    compare!(c, insert_remove, operation);
    compare!(c, replace, operation);
    compare!(c, drain, |group: &mut BenchmarkGroup<'_, WallTime>,
                        crowd| {
        // An iteration waits until all are due, which is not measured.
        group.sampling_mode(SamplingMode::Flat).sample_size(10);
        group.warm_up_time(Duration::from_millis(1));
        group.measurement_time(Duration::from_millis(1));
        group.throughput(Throughput::Elements(crowd as u64));
    });
}

criterion_group!(benches, queues);
criterion_main!(benches);

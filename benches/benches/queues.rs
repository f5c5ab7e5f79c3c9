//! Measures queues of delayed elements that already contain many pending elements.

use std::time::Duration;

use criterion::{
    BatchSize, BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group,
    criterion_main, measurement::WallTime,
};
use tokio_wheel::DelayQueue;
use tokio_wheel_benches::queue::{Crowded, HashWheel, Queue, SortedMap, due, runtime};

/// The numbers of pending elements.
const CROWDS: [usize; 2] = [100_000, 1_000_000];

fn insert_remove<Q: Queue>(group: &mut BenchmarkGroup<'_, WallTime>, crowd: usize) {
    operation::<Q>(group, crowd, Crowded::insert_remove);
}

fn replace<Q: Queue>(group: &mut BenchmarkGroup<'_, WallTime>, crowd: usize) {
    operation::<Q>(group, crowd, Crowded::replace);
}

fn operation<Q: Queue>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    crowd: usize,
    operate: fn(&mut Crowded<Q>),
) {
    let runtime = runtime();
    let _guard = runtime.enter();
    group.bench_function(Q::NAME, |b| {
        let mut crowded = Crowded::<Q>::new(crowd);
        b.iter(|| operate(&mut crowded));
    });
}

fn drain<Q: Queue>(group: &mut BenchmarkGroup<'_, WallTime>, crowd: usize) {
    let runtime = runtime();
    let _guard = runtime.enter();
    group.bench_function(Q::NAME, |b| {
        let drain = |(mut queue, keys): (Q, Vec<Q::Key>)| {
            runtime.block_on(queue.drain(crowd));
            (queue, keys)
        };
        b.iter_batched(|| due(crowd), drain, BatchSize::PerIteration);
    });
}

/// Runs one of the functions above for every crowd and every queue.
macro_rules! compare {
    ($criterion:expr, $operation:ident, $configure:expr) => {
        for crowd in CROWDS {
            let name = format!("{}/{crowd}", stringify!($operation));
            let mut group = $criterion.benchmark_group(name);
            $configure(&mut group, crowd);
            $operation::<DelayQueue<u32>>(&mut group, crowd);
            $operation::<tokio_util::time::DelayQueue<u32>>(&mut group, crowd);
            $operation::<nexus_timer::Wheel<u32>>(&mut group, crowd);
            $operation::<HashWheel>(&mut group, crowd);
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
        // An iteration waits until all elements have expired. The wait is not measured.
        group.sampling_mode(SamplingMode::Flat).sample_size(10);
        group.warm_up_time(Duration::from_millis(1));
        group.measurement_time(Duration::from_millis(1));
        group.throughput(Throughput::Elements(crowd as u64));
    });
}

criterion_group!(benches, queues);
criterion_main!(benches);

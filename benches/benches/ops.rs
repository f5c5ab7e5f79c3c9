//! What each operation costs, by criterion: for a comparison of two builds. `compare ops` compares peers.

use criterion::{Criterion, criterion_group, criterion_main};
use tokio_wheel_benches::cell::{WORKLOADS, cells};

fn ops(c: &mut Criterion) {
    for workload in WORKLOADS {
        let mut group = c.benchmark_group(workload);
        // By value: a crowd of pending sleeps goes away with the last cell that needs it.
        for cell in cells().into_iter().filter(|cell| cell.workload == workload) {
            let id = format!("{}/{}", cell.peer, cell.variant);
            group.bench_function(id, |b| b.iter_custom(|iters| cell.run(iters)));
        }
        group.finish();
    }
}

criterion_group!(benches, ops);
criterion_main!(benches);

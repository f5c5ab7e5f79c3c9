//! Measures each operation with criterion, to compare two builds. `compare ops` compares peers.

use criterion::{Criterion, criterion_group, criterion_main};
use tokio_wheel_benches::cell::{WORKLOADS, cells};

fn ops(c: &mut Criterion) {
    for workload in WORKLOADS {
        let mut group = c.benchmark_group(workload);
        // Takes the cells by value, so that a crowd of pending sleeps is dropped with the last cell
        // that needs it.
        for cell in cells().into_iter().filter(|cell| cell.workload == workload) {
            let id = format!("{}/{}", cell.peer, cell.variant);
            group.bench_function(id, |b| b.iter_custom(|iters| cell.run(iters)));
        }
        group.finish();
    }
}

criterion_group!(benches, ops);
criterion_main!(benches);

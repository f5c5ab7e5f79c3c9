//! Measures a touch of a key with criterion, to compare two builds. `compare touch` compares peers.

use criterion::{Criterion, criterion_group, criterion_main};
use tokio_wheel_benches::touch::{CROWDS, cases};

fn touch(c: &mut Criterion) {
    for crowd in CROWDS {
        let mut group = c.benchmark_group(format!("touch/{crowd}"));
        for case in cases(crowd) {
            let id = format!("{}/x{}", case.peer, case.threads);
            group.bench_function(id, |b| b.iter_custom(|iters| case.run(iters)));
        }
        group.finish();
    }
}

criterion_group!(benches, touch);
criterion_main!(benches);

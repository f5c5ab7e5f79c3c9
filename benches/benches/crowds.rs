//! Very many sleeps that fire, with criterion's statistics; `measure fire` and `measure storm` tell more:
//! how late they were, and what became of a neighbour.

use std::{hint::black_box, time::Duration};

use clap::ValueEnum as _;
use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};
use tokio_wheel_benches::{
    fire::{self, Scene},
    peer::PeerKind,
    with_peer,
};

/// How many sleeps a sample has.
const SLEEPS: u64 = 200_000;

/// The CPU time of the process while sleeps fire that are spread over a second.
fn spread(c: &mut Criterion) {
    let scene = Scene {
        spread: true,
        yielding: false,
    };
    compare(c, "fire", scene, "cpu ms");
}

/// The time until the last of sleeps is awake that are all due at once, beside a task that yields.
fn storm(c: &mut Criterion) {
    let scene = Scene {
        spread: false,
        yielding: true,
    };
    compare(c, "storm", scene, "drained ms");
}

/// One figure of a scene, peer by peer.
fn compare(c: &mut Criterion, group: &str, scene: Scene, figure: &str) {
    let column = fire::COLUMNS.iter().position(|column| *column == figure);
    let column = column.expect("no such figure");
    let mut group = c.benchmark_group(group);
    // Each iteration takes seconds, of which the figure is a small part.
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(1));
    group.measurement_time(Duration::from_millis(1));
    for peer in PeerKind::value_variants() {
        group.bench_function(peer.name(), |b| {
            b.iter_custom(|iters| {
                let sample = || with_peer!(*peer, P => fire::sample::<P>(SLEEPS, scene));
                let millis: f64 = (0..iters).map(|_| black_box(sample())[column]).sum();
                Duration::from_secs_f64(millis / 1e3)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, spread, storm);
criterion_main!(benches);

//! Measures the figures of `docs/scaling.md` that `compare` does not measure:
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example scaling -- shared|moved|model
//! ```

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Barrier, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use tokio::runtime::Runtime;
use tokio_wheel::{Sleep, Timer};
use tokio_wheel_benches::{
    cell::Cell,
    lab::{WORKERS, is_pending, on_workers, runtime},
    model::{OPERATIONS, Operation, Processor},
    peer::{Peer, Tokio, TokioWheel},
    pending::{BLOCK, Block, block},
    plot::{Axis, Chart, Curve, title},
    stats::{number, print_table},
};

const LIMIT: Duration = Duration::from_secs(30);

/// How often each figure is measured. The lowest counts, because other work only adds time.
const ROUNDS: usize = 31;

#[derive(clap::Parser)]
enum Experiment {
    /// Churn on threads that share a shard or a runtime's handle.
    Shared,
    /// Sleeps that are registered on one worker, then polled and dropped on this worker or another.
    Moved,
    /// The cost of operations on up to 128 cores, which a model predicts.
    Model {
        /// Draws the cost of churn into this file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Runs operations of a cell of `compare ops`, for a tool that counts instructions.
    Count {
        workload: String,
        peer: String,
        #[arg(default_value = "solo")]
        variant: String,
        #[arg(default_value_t = 20_000)]
        iters: u64,
    },
}

fn main() -> anyhow::Result<()> {
    match Experiment::parse() {
        Experiment::Shared => shared(),
        Experiment::Moved => {
            moved::<TokioWheel>();
            moved::<Tokio>();
        }
        Experiment::Model { svg } => {
            for processor in [Processor::epyc(), Processor::xeon()] {
                print_model(&processor);
            }
            if let Some(file) = svg {
                draw_model(&Processor::epyc(), &file)?;
            }
        }
        Experiment::Count {
            workload,
            peer,
            variant,
            iters,
        } => _ = Cell::find(&workload, &variant, &peer).run(iters),
    }
    Ok(())
}

fn shared() {
    const ITERS: u64 = 200_000;
    for (name, shards) in [("a shard each", WORKERS), ("one shard", 1)] {
        for threads in [1, WORKERS] {
            print(&format!("{name}, x{threads}"), || {
                let (runtime, timer) = with_shards(shards);
                let times = on_workers(&runtime, threads, |_| {
                    let timer = timer.clone();
                    async move { time(ITERS, || poll_and_drop(timer.sleep(LIMIT))) }
                });
                mean(&times, ITERS)
            });
        }
    }
    for threads in [1, WORKERS] {
        let churn = |ambient| outsiders(threads, ambient, ITERS);
        print(&format!("no workers, default, x{threads}"), || churn(true));
        print(&format!("no workers, `Timer`, x{threads}"), || churn(false));
    }
}

fn outsiders(threads: usize, ambient: bool, iters: u64) -> f64 {
    let (runtime, timer) = with_shards(WORKERS);
    let start = Barrier::new(threads);
    let outsider = || {
        let _entered = runtime.enter();
        start.wait();
        time(iters, || {
            poll_and_drop(match ambient {
                true => tokio_wheel::sleep(LIMIT),
                false => timer.sleep(LIMIT),
            });
        })
    };
    let times: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(outsider)).collect();
        let times = threads.into_iter().map(|thread| thread.join());
        times.map(|time| time.expect("no panic")).collect()
    });
    mean(&times, iters)
}

/// A worker registers piles of sleeps. This worker or the other one polls them again and drops them.
/// The second worker either waits in the meantime or works on piles of its own.
fn moved<P: Peer>() {
    for (name, moves, busy) in [
        ("stay, other worker idle", false, false),
        ("move, other worker idle", true, false),
        ("stay, both busy", false, true),
        ("move, both busy", true, true),
    ] {
        print(&format!("{}: {name}", P::NAME), || {
            let runtime = runtime(WORKERS);
            // This sleep expires before the piles, so no sleep of a pile sets an alarm.
            runtime.spawn(async { P::sleep(LIMIT / 3).await });
            let (to_second, from_first) = mpsc::channel();
            let (to_first, from_second) = mpsc::channel();
            let ends = [(to_second, from_second), (to_first, from_first)];
            let ends = ends.map(|ends| Mutex::new(Some(ends)));
            let times = on_workers(&runtime, WORKERS, |worker| {
                let (to, from) = ends[worker].lock().expect("no panic").take().expect("once");
                async move {
                    let mut spent = Duration::ZERO;
                    for _ in 0..PILES {
                        if worker > 0 && !busy {
                            if moves {
                                spent += poll_again_and_drop(from.recv().expect("a pile"));
                                // Lets the first worker continue.
                                to.send(Pile::new()).expect("a receiver");
                            }
                            continue;
                        }
                        let start = Instant::now();
                        let blocks = 0..PILE / BLOCK;
                        let mut pile: Pile = blocks.map(|_| block(|_| P::sleep(LIMIT))).collect();
                        spent += start.elapsed();
                        if moves {
                            to.send(pile).expect("a receiver");
                            pile = from.recv().expect("a pile");
                        }
                        spent += poll_again_and_drop(pile);
                    }
                    spent
                }
            });
            let sleeps = PILES * PILE * if busy { WORKERS as u64 } else { 1 };
            times.iter().sum::<Duration>().as_nanos() as f64 / sleeps as f64
        });
    }
}

type Pile = Vec<Block>;

const PILES: u64 = 50;
const PILE: u64 = 64 * BLOCK;

fn poll_again_and_drop(mut pile: Pile) -> Duration {
    let start = Instant::now();
    for block in &mut pile {
        assert!(is_pending(block.as_mut()));
    }
    drop(pile);
    start.elapsed()
}

fn with_shards(shards: usize) -> (Runtime, Timer) {
    let runtime = runtime(WORKERS);
    let _entered = runtime.enter();
    let timer = Timer::builder().shards(shards).build();
    (runtime, timer.expect("no timer"))
}

fn poll_and_drop(mut sleep: Sleep) {
    assert!(is_pending(Pin::new(&mut sleep)));
}

fn time(iters: u64, mut operation: impl FnMut()) -> Duration {
    (0..16).for_each(|_| operation());
    let start = Instant::now();
    (0..iters).for_each(|_| operation());
    start.elapsed()
}

fn mean(times: &[Duration], iters: u64) -> f64 {
    let total: Duration = times.iter().sum();
    total.as_nanos() as f64 / times.len() as f64 / iters as f64
}

fn print(name: &str, sample: impl Fn() -> f64) {
    let least = (0..ROUNDS).map(|_| sample()).fold(f64::INFINITY, f64::min);
    println!("{name:36} {least:8.1} ns");
}

const PREDICTED: [usize; 7] = [1, 2, 8, 16, 24, 64, 128];

/// The microseconds for which a worker does other work between two timeouts.
const WORK: [u32; 3] = [2, 5, 20];

/// The share of a worker's time from which on the timer matters.
const MATTERS: f64 = 0.1;

fn print_model(processor: &Processor) {
    println!("\n== {}", processor.name);
    let row = |name: &str, cell: &dyn Fn(usize) -> String| {
        [vec![name.to_owned()], PREDICTED.map(cell).into()].concat()
    };
    let mut rows = vec![row("workers", &|workers| workers.to_string())];
    rows.push(vec![
        "They do nothing else: ns of an operation (millions a second, of all workers)".to_owned(),
    ]);
    for one in &OPERATIONS {
        let name = format!("  {} {}", one.workload, one.timer);
        rows.push(row(&name, &|workers| {
            let ns = one.cost(one.alone, 0.0, workers, processor);
            format!("{} ({})", number(ns), number(workers as f64 * 1e3 / ns))
        }));
    }
    for work in WORK {
        rows.push(vec![format!(
            "churn after every {work} us of other work: % of a worker's time (10% from so many workers on)"
        )]);
        for one in OPERATIONS.iter().filter(|one| one.workload == "churn") {
            let share = |workers| share(one, f64::from(work) * 1e3, workers, processor);
            let from = (1..=128).find(|&workers| share(workers) > MATTERS);
            let from = from.map_or_else(|| "never".to_owned(), |workers| workers.to_string());
            let name = format!("  {} ({from})", one.timer);
            rows.push(row(&name, &|workers| number(share(workers) * 100.0)));
        }
    }
    print_table(&rows);
}

/// Returns the share of a worker's time that operations take, with `work` ns between two of them.
fn share(one: &Operation, work: f64, workers: usize, processor: &Processor) -> f64 {
    let cost = one.cost(one.alone, work, workers, processor);
    cost / (cost + work)
}

fn draw_model(processor: &Processor, file: &Path) -> anyhow::Result<()> {
    let curve = |one: &Operation| Curve {
        name: title(one.timer).to_owned(),
        faint: false,
        points: (1..=128)
            .map(|n| (n as f64, one.cost(one.alone, 5_000.0, n, processor)))
            .collect(),
    };
    let churn = OPERATIONS.iter().filter(|one| one.workload == "churn");
    let curves: Vec<_> = churn.map(curve).collect();
    let marks = (0..8).map(|power| 1 << power);
    let marks = marks.map(|workers: i32| (f64::from(workers), workers.to_string()));
    Chart {
        caption: "Predicted: the cost of setting and canceling a sleep, by the number of workers",
        note: "A model, not measured. Lower is better. Each worker sets a sleep every 5 us.",
        source: &format!("scaling -- model, for {}", processor.name),
        x: Axis {
            title: "worker threads, each on a core (logarithmic)",
            is_logarithmic: true,
            marks: marks.collect(),
        },
        y: "ns per sleep (logarithmic)",
        curves: &curves,
    }
    .draw(file)
}

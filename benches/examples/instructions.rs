//! Counts the instructions of the hot paths with callgrind, and compares the counts with the
//! recorded counts. `.ci/instructions` runs it.
//!
//! The program runs each operation in a short run and a long run. It divides the difference of the
//! instructions by the difference of the operations. So the start of a program does not count.

use std::{
    collections::BTreeMap,
    fs,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use futures_lite::future::poll_once;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio_wheel::{Instant, Timer};
use tokio_wheel_benches::{
    cell::{Cell, warm_lab},
    lab::is_pending,
    peer::{Peer as _, TokioWheel, Within},
    queue, workload,
};
use tokio_wheel_util::{delay_queue::DelayQueue, idle::IdleSet};

const TOLERANCE: f64 = 0.05;

const RUNS: [u64; 2] = [4_000, 12_000];

const FAR: Duration = Duration::from_secs(3_600);

#[derive(Parser)]
enum Task {
    Check {
        file: PathBuf,
        built_by: String,
    },
    Record {
        file: PathBuf,
        built_by: String,
    },
    /// Runs an operation `count` times, for the tool that counts.
    #[command(hide = true)]
    Run {
        operation: String,
        count: u64,
    },
}

/// The recorded counts, and the compiler and the tokio that they hold for. Another compiler or
/// another tokio gives other counts.
#[derive(Serialize, Deserialize)]
struct Counts {
    built_by: String,
    instructions: BTreeMap<String, f64>,
}

/// A name, and a function that runs the operation a given number of times.
type Operation = (&'static str, fn(u64));

const OPERATIONS: [Operation; 13] = [
    ("delay_queue_insert_expire", insert_expire),
    ("delay_queue_insert_remove", insert_remove),
    ("idle_touch", touch),
    ("schedule_cancel", |count| cell("schedule", count)),
    ("scope_of_pending_once", |count| scope("io", count)),
    ("scope_within_a_shorter_one", |count| {
        scope("covered", count)
    }),
    ("sleep_poll_drop", |count| cell("churn", count)),
    ("sleep_poll_drop_among_20000", churn_among_many),
    ("sleep_poll_drop_on_current_thread", churn_on_a_thread),
    ("sleep_poll_fire", fire),
    ("sleep_reset_poll", |count| cell("reset", count)),
    ("timeout_of_pending_once", |count| cell("io", count)),
    ("timeout_of_ready", |count| cell("ready", count)),
];

fn main() -> Result<()> {
    match Task::parse() {
        Task::Check { file, built_by } => check(&file, &built_by),
        Task::Record { file, built_by } => {
            let instructions = count_all()?;
            let counts = serde_json::to_string_pretty(&Counts {
                built_by,
                instructions,
            })?;
            Ok(fs::write(file, counts + "\n")?)
        }
        Task::Run { operation, count } => {
            let operation = OPERATIONS.iter().find(|(name, _)| *name == operation);
            operation.context("no such operation")?.1(count);
            Ok(())
        }
    }
}

fn check(file: &Path, built_by: &str) -> Result<()> {
    let recorded: Counts = serde_json::from_slice(&fs::read(file)?)?;
    let counts = count_all()?;
    let mut has_changed = false;
    println!("{:30} {:>8} {:>8}", "instructions", "recorded", "now");
    for (name, now) in &counts {
        let before = recorded.instructions.get(name);
        let before = before.with_context(|| format!("{name} is not on record: run `record`"))?;
        let change = now / before - 1.0;
        println!("{name:30} {before:8.1} {now:8.1} {:+6.1}%", change * 100.0);
        has_changed |= change.abs() > TOLERANCE;
    }
    let alone = counts["sleep_poll_drop"];
    let among = counts["sleep_poll_drop_among_20000"];
    ensure!(
        among / alone <= 1.0 + TOLERANCE,
        "a sleep takes {alone:.1} instructions alone, and {among:.1} among 20,000 others"
    );
    if built_by != recorded.built_by {
        println!("not judged: the record is of {}", recorded.built_by);
        println!("            and this is of {built_by}");
        return Ok(());
    }
    ensure!(
        !has_changed,
        "more than {}% from the record; if the change is intended, run `record` and say why",
        TOLERANCE * 100.0,
    );
    Ok(())
}

fn count_all() -> Result<BTreeMap<String, f64>> {
    let [short, long] = RUNS;
    let count = |(name, _)| {
        let more = instructions(name, long)? - instructions(name, short)?;
        let tenths = (more / (long - short) as f64 * 10.0).round();
        Ok((name.to_owned(), tenths / 10.0))
    };
    OPERATIONS.into_iter().map(count).collect()
}

fn instructions(operation: &str, count: u64) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["run", operation, &count.to_string()])
        .output()
        .context("cannot start valgrind")?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{operation} failed:\n{log}");
    let collected = log.split("Collected :").nth(1);
    let collected = collected.and_then(|rest| rest.split_whitespace().next());
    let collected = collected.with_context(|| format!("valgrind counted nothing:\n{log}"))?;
    Ok(collected.parse()?)
}

fn cell(workload: &str, count: u64) {
    Cell::find(workload, "solo", TokioWheel::NAME).run(count);
}

fn scope(workload: &str, count: u64) {
    Cell::find(workload, "solo", Within::NAME).run(count);
}

/// Runs `sleep_poll_drop` beside pending sleeps, which must not add instructions.
fn churn_among_many(count: u64) {
    const PENDING: u64 = 20_000;
    let lab = warm_lab::<TokioWheel, _>(1, false, workload::churn::<TokioWheel>);
    lab.time_per_thread(1, || async move {
        let mut pending: Vec<_> = (1..=PENDING)
            .map(|n| tokio_wheel::sleep(FAR + Duration::from_secs(n)))
            .collect();
        for sleep in &mut pending {
            assert!(is_pending(Pin::new(sleep)));
        }
        workload::churn::<TokioWheel>(count).await
    });
}

fn churn_on_a_thread(count: u64) {
    on_a_thread(async move {
        workload::churn::<TokioWheel>(count).await;
    });
}

/// Registers sleeps with one deadline, and blocks the thread until the driver can fire all of them.
fn fire(count: u64) {
    /// So long that all entries are on the lowest level of the wheel, wherever the count begins.
    const TICK: Duration = Duration::from_millis(500);
    /// Longer than the registration of all sleeps takes under callgrind on a busy machine.
    const WAIT: Duration = Duration::from_secs(3);

    on_a_thread(async move {
        let timer = Timer::builder().tick(TICK).build().expect("no timer");
        let deadline = Instant::now() + WAIT;
        let mut sleeps: Vec<_> = (0..count).map(|_| timer.sleep_until(deadline)).collect();
        for sleep in &mut sleeps {
            assert!(is_pending(Pin::new(sleep)));
        }
        assert!(Instant::now() < deadline, "the machine is too slow");
        thread::sleep(deadline + TICK - Instant::now());
        while timer.metrics().fired() < count {
            tokio::task::yield_now().await;
        }
    });
}

/// Inserts values that have expired. With one deadline, the count does not depend on the machine's speed.
fn insert_expire(count: u64) {
    on_a_thread(async move {
        let mut queue = DelayQueue::new();
        let deadline = Instant::now();
        for i in 0..count {
            queue.insert_at(i, deadline);
        }
        for _ in 0..count {
            assert!(queue.next().await.is_some());
        }
    });
}

fn insert_remove(count: u64) {
    on_a_thread(async move {
        let mut queue = DelayQueue::new();
        let deadline = Instant::now() + FAR;
        queue.insert_at(0, deadline);
        assert!(poll_once(queue.next()).await.is_none());
        for i in 0..count {
            let key = queue.insert_at(i, deadline);
            queue.remove(&key);
        }
    });
}

fn touch(count: u64) {
    on_a_thread(async move {
        let (set, mut reaper) = IdleSet::new(FAR);
        set.touch(&0_u64);
        assert!(poll_once(reaper.next()).await.is_none());
        for _ in 0..count {
            set.touch(&0_u64);
        }
    });
}

fn on_a_thread(work: impl Future<Output = ()>) {
    queue::runtime().block_on(work);
}

//! Counts the instructions of the hot paths with callgrind, and compares the counts with the
//! recorded counts.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example instructions -- check benches/instructions.json
//! cargo run --release -p tokio-wheel-benches --example instructions -- record benches/instructions.json
//! ```
//!
//! On a shared machine, times differ from run to run by a tenth or more, but instruction counts
//! only by a thousandth. The program runs each operation in a short run and a long run. It divides
//! the difference of the instructions by the difference of the operations. So the start of a
//! program does not count.

use std::{
    collections::BTreeMap,
    fs,
    future::{Future, poll_fn},
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use futures_util::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use tokio_wheel::{DelayQueue, Instant, Timer, idle::IdleSet};
use tokio_wheel_benches::{cell::cells, peer::TokioWheel, queue, stats::print_table, workload};

/// The greatest accepted change of a count.
const TOLERANCE: f64 = 0.05;

/// The number of operations in the short run and in the long run.
const RUNS: [u64; 2] = [4_000, 12_000];

/// So long that it never expires.
const FAR: Duration = Duration::from_secs(3_600);

#[derive(Parser)]
enum Task {
    /// Counts, and fails if a count differs from the recorded count by more than 5%.
    Check { file: PathBuf },
    /// Counts, and records the counts in the file.
    Record { file: PathBuf },
    /// Runs an operation `count` times, for the tool that counts.
    #[command(hide = true)]
    Run { operation: String, count: u64 },
}

/// The recorded counts, and the build that they hold for. Another compiler or another tokio gives
/// other counts.
#[derive(Serialize, Deserialize)]
struct Counts {
    built_by: String,
    instructions: BTreeMap<String, f64>,
}

/// The name of an operation, and a function that runs it a given number of times.
type Operation = (&'static str, fn(u64));

const OPERATIONS: [Operation; 10] = [
    ("delay_queue_insert_expire", insert_expire),
    ("delay_queue_insert_remove", insert_remove),
    ("idle_touch", touch),
    ("schedule_cancel", |count| cell("schedule", count)),
    ("sleep_poll_drop", |count| cell("churn", count)),
    ("sleep_poll_drop_among_20000", churn_among_many),
    ("sleep_poll_fire", fire),
    ("sleep_reset_poll", |count| cell("reset", count)),
    ("timeout_of_pending_once", |count| cell("io", count)),
    ("timeout_of_ready", |count| cell("ready", count)),
];

fn main() -> Result<()> {
    match Task::parse() {
        Task::Check { file } => check(&file),
        Task::Record { file } => record(&file),
        Task::Run { operation, count } => run(&operation, count),
    }
}

fn check(file: &Path) -> Result<()> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let recorded: Counts =
        serde_json::from_slice(&text).with_context(|| format!("in {}", file.display()))?;
    let built_by = built_by()?;
    let counts = count_all()?;
    let mut rows = vec![
        ["instructions", "recorded", "now", ""]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut far_off = Vec::new();
    for (name, now) in &counts {
        let before = recorded.instructions.get(name);
        let before = before.with_context(|| format!("{name} is not on record: run `record`"))?;
        let change = now / before - 1.0;
        let cells = [
            format!("{before:.1}"),
            format!("{now:.1}"),
            format!("{:+.1}%", change * 100.0),
        ];
        rows.push([name.clone()].into_iter().chain(cells).collect());
        if change.abs() > TOLERANCE {
            far_off.push(name.as_str());
        }
    }
    print_table(&rows);
    let (alone, among) = (
        counts["sleep_poll_drop"],
        counts["sleep_poll_drop_among_20000"],
    );
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
        far_off.is_empty(),
        "more than {}% from the record: {}; if the change is intended, run `record` and say why",
        TOLERANCE * 100.0,
        far_off.join(", "),
    );
    Ok(())
}

fn record(file: &Path) -> Result<()> {
    let counts = Counts {
        built_by: built_by()?,
        instructions: count_all()?,
    };
    let text = serde_json::to_string_pretty(&counts)? + "\n";
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn run(name: &str, count: u64) -> Result<()> {
    let operation = OPERATIONS.iter().find(|(known, _)| *known == name);
    let (_, operation) = operation.with_context(|| format!("no operation {name:?}"))?;
    operation(count);
    Ok(())
}

/// Returns the compiler, its target, and tokio's version.
fn built_by() -> Result<String> {
    let version = output("rustc", &["-vV"])?;
    let line = |name: &str| {
        (version.lines().find_map(|line| line.strip_prefix(name)))
            .with_context(|| format!("rustc -vV says no {name:?}"))
    };
    // The output is a URL that ends in `#tokio@` and the version.
    let tokio = output("cargo", &["pkgid", "tokio"])?;
    let tokio = tokio.trim().rsplit('@').next().unwrap_or_default();
    Ok(format!(
        "rustc {} for {}, tokio {tokio}",
        line("release: ")?,
        line("host: ")?
    ))
}

fn output(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed:\n{log}");
    Ok(String::from_utf8(output.stdout)?)
}

fn count_all() -> Result<BTreeMap<String, f64>> {
    let [short, long] = RUNS;
    let count = |name| {
        let more = instructions(name, long)? - instructions(name, short)?;
        Ok((
            name.to_owned(),
            (more / (long - short) as f64 * 10.0).round() / 10.0,
        ))
    };
    OPERATIONS.iter().map(|(name, _)| count(name)).collect()
}

/// Returns what callgrind counts while `count` operations run.
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

/// Runs a cell of `compare ops` on one worker.
fn cell(workload: &str, count: u64) {
    let cell = (cells().into_iter())
        .find(|cell| (cell.workload, cell.peer, cell.variant) == (workload, "tokio_wheel", "solo"));
    cell.expect("no such cell").run(count);
}

/// Runs `sleep_poll_drop` beside pending sleeps, which must not add instructions.
fn churn_among_many(count: u64) {
    const PENDING: u64 = 20_000;
    on_a_thread(async move {
        let mut cx = Context::from_waker(Waker::noop());
        let mut pending: Vec<_> = (1..=PENDING)
            .map(|n| tokio_wheel::sleep(FAR + Duration::from_secs(n)))
            .collect();
        for sleep in &mut pending {
            assert!(Pin::new(sleep).poll(&mut cx).is_pending());
        }
        workload::churn::<TokioWheel>(count).await;
    });
}

/// Registers sleeps with one deadline, and blocks the thread until the deadline has passed. Then
/// the driver fires the sleeps in its batches.
fn fire(count: u64) {
    /// So long that all entries are on the lowest level of the wheel, wherever the count begins.
    const TICK: Duration = Duration::from_millis(500);
    /// Longer than the registration of all sleeps takes under callgrind on a busy machine.
    const WAIT: Duration = Duration::from_secs(3);

    struct Fired(AtomicU64);

    impl Wake for Fired {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    let fired = Arc::new(Fired(AtomicU64::new(0)));
    let waker = Waker::from(fired.clone());
    on_a_thread(async move {
        let timer = Timer::builder().tick(TICK).build().expect("no timer");
        let deadline = Instant::now() + WAIT;
        let mut sleeps: Vec<_> = (0..count).map(|_| timer.sleep_until(deadline)).collect();
        let mut cx = Context::from_waker(&waker);
        for sleep in &mut sleeps {
            assert!(Pin::new(sleep).poll(&mut cx).is_pending());
        }
        assert!(Instant::now() < deadline, "the machine is too slow");
        thread::sleep(deadline + TICK - Instant::now());
        while fired.0.load(Relaxed) < count {
            tokio::task::yield_now().await;
        }
    });
}

/// Inserts values that expire at once.
fn insert_expire(count: u64) {
    on_a_thread(async move {
        let mut queue = DelayQueue::new();
        for i in 0..count {
            queue.insert(i, Duration::ZERO);
        }
        for _ in 0..count {
            assert!(queue.next().await.is_some());
        }
    });
}

fn insert_remove(count: u64) {
    on_a_thread(async move {
        let mut queue = DelayQueue::new();
        queue.insert(0, FAR);
        is_pending(&mut queue).await;
        for i in 0..count {
            let key = queue.insert(i, FAR);
            queue.remove(&key);
        }
    });
}

/// Touches one key again and again.
fn touch(count: u64) {
    on_a_thread(async move {
        let (set, mut reaper) = IdleSet::new(FAR);
        set.touch(&0_u64);
        is_pending(&mut reaper).await;
        for _ in 0..count {
            set.touch(&0_u64);
        }
    });
}

/// Polls a stream that has no value yet, so that the stream registers its waker and its deadline.
async fn is_pending(stream: &mut (impl Stream + Unpin)) {
    poll_fn(|cx| {
        assert!(stream.poll_next_unpin(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

fn on_a_thread(work: impl Future<Output = ()>) {
    queue::runtime().block_on(work);
}

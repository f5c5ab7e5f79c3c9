//! `memory` and `idle`: what very many pending sleeps hold and cost while nothing happens.

use std::{
    fs,
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll},
    thread,
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio_wheel_benches::{
    fire::process_cpu,
    lab::{WORKERS, far, is_pending, on_workers, runtime_for},
    peer::Peer,
};

/// What [`memory`] returns.
pub(crate) const MEMORY_COLUMNS: &[&str] = &["bytes per sleep", "of which future"];

/// What [`idle`] returns.
pub(crate) const IDLE_COLUMNS: &[&str] = &["cpu ms", "context switches"];

/// How long to idle.
const IDLE: Duration = Duration::from_secs(10);

/// How many sleeps share an allocation.
const BLOCK: u64 = 16;

/// How much resident memory grows per pending sleep.
pub(crate) fn memory<P: Peer>(sleeps: u64) -> Vec<f64> {
    let mut grown = 0;
    let size = beside_pending::<P>(sleeps, |before| grown = resident_bytes() - before);
    vec![grown as f64 / sleeps as f64, size as f64]
}

/// What the process spends while all it has is pending.
pub(crate) fn idle<P: Peer>(sleeps: u64) -> Vec<f64> {
    let mut figures = Vec::new();
    beside_pending::<P>(sleeps, |_| {
        let (cpu, switches) = spent_idling();
        figures = vec![cpu.as_secs_f64() * 1e3, switches as f64];
    });
    figures
}

/// Waits for ten seconds and says how much CPU time and how many context switches the process has spent.
pub(crate) fn spent_idling() -> (Duration, u64) {
    let (cpu, switches) = (process_cpu(), context_switches());
    thread::sleep(IDLE);
    (process_cpu() - cpu, context_switches() - switches)
}

/// Calls `observe` while the sleeps are pending, with the resident memory from before they were. Returns
/// the size of one sleep.
fn beside_pending<P: Peer>(sleeps: u64, observe: impl FnOnce(u64)) -> usize {
    let runtime = runtime_for::<P>(WORKERS);
    // Tokio's sleep must be made within a runtime, even if never polled.
    let _entered = runtime.enter();
    // Peers with a thread or a reactor of their own start it here.
    on_workers(&runtime, WORKERS, |_| P::sleep(Duration::from_millis(20)));
    let before = resident_bytes();
    let pending = on_workers(&runtime, WORKERS, move |worker| async move {
        (worker as u64 * BLOCK..sleeps)
            .step_by(WORKERS * BLOCK as usize)
            .map(|first| pending_block::<P>(first, sleeps))
            .collect::<Vec<_>>()
    });
    // Those with a thread take the sleeps over in their own time.
    thread::sleep(Duration::from_secs(2));
    observe(before);
    drop(pending);
    size_of_val(&P::sleep(IDLE))
}

/// Sixteen sleeps side by side in one box, so that the allocator's share per sleep is next to nothing.
fn pending_block<P: Peer>(first: u64, sleeps: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let sleep = |i| P::sleep(far(first + i, sleeps));
    let two = |i| Pair {
        a: sleep(i),
        b: sleep(i + 1),
    };
    let four = |i| Pair {
        a: two(i),
        b: two(i + 2),
    };
    let eight = |i| Pair {
        a: four(i),
        b: four(i + 4),
    };
    let mut block = Box::pin(Pair {
        a: eight(0),
        b: eight(8),
    });
    assert!(is_pending(pin!(&mut block)));
    block
}

pin_project! {
    /// Two futures without anything between them: pending as long as one is, and polling both.
    struct Pair<A, B> {
        #[pin]
        a: A,
        #[pin]
        b: B,
    }
}

impl<A: Future, B: Future> Future for Pair<A, B> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let pair = self.project();
        if pair.a.poll(cx).is_pending() & pair.b.poll(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

pub(crate) fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("needs Linux's /proc");
    field(&status, "VmRSS:") * 1_024
}

fn context_switches() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("needs Linux's /proc");
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok())
        .map(|status| {
            field(&status, "voluntary_ctxt_switches:")
                + field(&status, "nonvoluntary_ctxt_switches:")
        })
        .sum()
}

/// The number that follows `name` at the start of a line.
fn field(status: &str, name: &str) -> u64 {
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix(name)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or_else(|| panic!("/proc has no {name}"))
}

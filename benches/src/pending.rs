//! Measures how much memory and CPU time very many pending sleeps need while nothing happens, and
//! how much memory dropped sleeps leave behind.

use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll},
    thread,
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::task::yield_now;

use crate::{
    cell::warm_lab,
    lab::{WORKERS, far, is_pending, on_workers, runtime_for},
    peer::Peer,
    process::{context_switches, cpu_time, resident_bytes},
    workload::churn,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// How long to wait for peers with a thread, which works at its own pace.
const SETTLING: Duration = Duration::from_secs(2);

/// How long to idle.
const IDLE: Duration = Duration::from_secs(10);

/// How many sleeps share an allocation.
pub const BLOCK: u64 = 16;

/// Sixteen sleeps side by side in one box, so that the allocator adds almost nothing per sleep.
pub type Block = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The memory of pending sleeps.
pub struct Memory {
    /// The growth of resident memory in bytes, per sleep.
    pub bytes_per_sleep: f64,
    /// The size of the future, which these bytes include.
    pub future: usize,
}

/// What a process uses during ten seconds in which nothing happens.
pub struct Idling {
    /// The CPU time of its threads.
    pub cpu: Duration,
    /// How often the kernel switched away from its threads.
    pub context_switches: u64,
}

/// Measures how much resident memory grows per pending sleep.
pub fn memory<P: Peer>(sleeps: u64) -> Memory {
    let mut grown = 0;
    let future = beside_pending::<P>(sleeps, |before| grown = resident_bytes() - before);
    Memory {
        bytes_per_sleep: grown as f64 / sleeps as f64,
        future,
    }
}

/// Returns how many bytes resident memory has grown after an hour of short-lived sleeps. The sleeps
/// last an hour each. Each of them is made, polled once and dropped, and in the end none is left.
/// The hour passes only for the timer: each deadline is later than the previous one by the distance
/// of two sleeps.
pub fn growth<P: Peer>(sleeps: u64) -> f64 {
    let lab = warm_lab::<P, _>(WORKERS, churn::<P>);
    let before = resident_bytes();
    let per_worker = sleeps / WORKERS as u64;
    lab.time_per_thread(WORKERS, || async move {
        for i in 0..per_worker {
            let sleep = pin!(P::sleep(HOUR + HOUR.mul_f64(i as f64 / per_worker as f64)));
            assert!(is_pending(sleep));
            if i % 1_024 == 0 {
                // Some peers free dropped entries when the worker has nothing else to do.
                yield_now().await;
            }
        }
        Duration::ZERO
    });
    thread::sleep(SETTLING);
    resident_bytes().saturating_sub(before) as f64
}

/// Measures what the process spends while sleeps are pending and none expires.
pub fn idle<P: Peer>(sleeps: u64) -> Idling {
    let mut spent = None;
    beside_pending::<P>(sleeps, |_| spent = Some(idling()));
    spent.expect("it is observed")
}

/// Waits for ten seconds, and returns what the process has spent in them.
pub fn idling() -> Idling {
    let (cpu, switches) = (cpu_time(), context_switches());
    thread::sleep(IDLE);
    Idling {
        cpu: cpu_time() - cpu,
        context_switches: context_switches() - switches,
    }
}

/// Calls `observe` while the sleeps are pending, with the resident memory from before the sleeps.
/// Returns the size of one sleep.
fn beside_pending<P: Peer>(sleeps: u64, observe: impl FnOnce(u64)) -> usize {
    let runtime = runtime_for::<P>(WORKERS);
    // Tokio's sleep must be made within a runtime, even if it is never polled.
    let _entered = runtime.enter();
    // Peers with a thread or a reactor of their own start it here.
    on_workers(&runtime, WORKERS, |_| P::sleep(Duration::from_millis(20)));
    let before = resident_bytes();
    let pending = on_workers(&runtime, WORKERS, move |worker| async move {
        (worker as u64 * BLOCK..sleeps)
            .step_by(WORKERS * BLOCK as usize)
            .map(|first| block(|i| P::sleep(far(first + i, sleeps))))
            .collect::<Vec<_>>()
    });
    thread::sleep(SETTLING);
    observe(before);
    drop(pending);
    size_of_val(&P::sleep(IDLE))
}

/// Makes a block of the sleeps with the numbers from 0 on, and polls it once.
pub fn block<S>(sleep: impl Fn(u64) -> S) -> Block
where
    S: Future<Output = ()> + Send + 'static,
{
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
    /// Two futures and nothing between them. It polls both, and is pending while one of them is
    /// pending.
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

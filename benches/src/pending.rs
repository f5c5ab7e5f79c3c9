//! Measures the memory of very many pending sleeps, of tasks that wait, and of streams with limits.

use std::{
    future::Future,
    pin::Pin,
    sync::OnceLock,
    task::{Context, Waker},
    thread,
    time::Duration,
};

use futures_lite::future::{Or, or};
use tokio::{
    io::{AsyncRead, DuplexStream, ReadBuf, duplex},
    task::JoinHandle,
};
use tokio_wheel_util::io::{Limits, MinRate, TimeoutStream};
use tokio_wheel_util::schedule::{ScheduledTask, Scheduler};

use crate::{
    Figure,
    lab::{WORKERS, far, is_pending, on_workers, runtime, runtime_for},
    peer::{Peer, TokioWheel},
    process::resident_bytes,
    workload::{Captured, sleep_and_run},
};

const HOUR: Duration = Duration::from_secs(3_600);

/// How long to wait for peers with a thread, which works at its own pace.
const SETTLING: Duration = Duration::from_secs(2);

const WAITING: u64 = 1_000_000;

const STREAMS: usize = 200_000;

pub const BLOCK: u64 = 16;

/// Sixteen sleeps side by side in one box, so that the allocator adds almost nothing per sleep.
pub type Block = Pin<Box<dyn Future<Output = ()> + Send>>;

pub fn memory<P: Peer>() -> Vec<Figure> {
    let runtime = runtime_for::<P>(WORKERS);
    // Tokio's sleep must be made within a runtime, even if it is never polled.
    let _entered = runtime.enter();
    // Peers with a thread or a reactor of their own start it here.
    on_workers(&runtime, WORKERS, |_| P::sleep(Duration::from_millis(20)));
    let before = resident_bytes();
    let pending = on_workers(&runtime, WORKERS, move |worker| async move {
        (worker as u64 * BLOCK..WAITING)
            .step_by(WORKERS * BLOCK as usize)
            .map(|first| block(|i| P::sleep(far(first + i, WAITING))))
            .collect::<Vec<_>>()
    });
    thread::sleep(SETTLING);
    let grown = resident_bytes() - before;
    drop(pending);
    let future = size_of_val(&P::sleep(HOUR));
    vec![
        ("per pending sleep", grown as f64 / WAITING as f64, "B"),
        ("of which the future", future as f64, "B"),
    ]
}

pub fn scheduled() -> Vec<Figure> {
    static SCHEDULER: OnceLock<Scheduler> = OnceLock::new();
    let start = |delay, captured| {
        let scheduler = SCHEDULER.get_or_init(Scheduler::new);
        scheduler.schedule(delay, captured).expect("refused")
    };
    waiting::<TokioWheel, ScheduledTask<u64>>(size_of::<Captured>(), start)
}

pub fn spawned<P: Peer>() -> Vec<Figure> {
    let start = |delay, captured| tokio::spawn(sleep_and_run::<P>(delay, || {}, captured));
    let size = size_of_val(&sleep_and_run::<P>(HOUR, || {}, Captured::new(0)));
    waiting::<P, JoinHandle<u64>>(size, start)
}

/// Starts the tasks, half of them on each worker.
fn waiting<P: Peer, H: Send + 'static>(
    future: usize,
    start: impl Fn(Duration, Captured) -> H + Copy + Send + 'static,
) -> Vec<Figure> {
    let runtime = runtime_for::<P>(WORKERS);
    // Allocates what exists only once, before the first reading.
    on_workers(&runtime, WORKERS, |_| async move {
        start(Duration::from_millis(20), Captured::new(0))
    });
    thread::sleep(Duration::from_millis(100));
    let before = resident_bytes();
    let handles = on_workers(&runtime, WORKERS, |worker| async move {
        let mine = (worker as u64..WAITING).step_by(WORKERS);
        mine.map(|i| start(far(i, WAITING), Captured::new(i)))
            .collect::<Vec<_>>()
    });
    // The spawned tasks need time to fall asleep.
    thread::sleep(Duration::from_secs(3));
    let grown = resident_bytes() - before;
    let tokio_tasks = runtime.metrics().num_alive_tasks();
    drop(handles);
    vec![
        ("per task", grown as f64 / WAITING as f64, "B"),
        ("of which the future", future as f64, "B"),
        ("tokio tasks", tokio_tasks as f64, "tasks"),
    ]
}

/// Returns how much resident memory grows per stream with every limit, without the inner stream.
pub fn streams() -> Vec<Figure> {
    const LIMIT: Duration = Duration::from_secs(30);
    const RATE: MinRate = MinRate::new(1_000, LIMIT);
    let runtime = runtime(1);
    let _entered = runtime.enter();
    let limits = Limits::new()
        .read_timeout(LIMIT)
        .write_timeout(LIMIT)
        .idle_timeout(LIMIT);
    let limits = limits.min_read_rate(RATE).min_write_rate(RATE);
    let limited = |stream| TimeoutStream::with_limits(stream, limits);
    // The pipes exist before the first reading. Creates the timer and its driver too.
    let (mut inner, _others): (Vec<_>, Vec<_>) = (0..=STREAMS).map(|_| duplex(1)).unzip();
    let mut first = limited(inner.pop().expect("there is one more"));
    let mut cx = Context::from_waker(Waker::noop());
    let read = Pin::new(&mut first).poll_read(&mut cx, &mut ReadBuf::new(&mut [0]));
    assert!(read.is_pending());
    let mut all = Vec::with_capacity(STREAMS);
    let before = resident_bytes() as f64;
    all.extend(inner.drain(..).map(limited));
    let grown = resident_bytes() as f64 - before;
    let per_stream = grown / STREAMS as f64 - size_of::<DuplexStream>() as f64;
    vec![("beside its inner stream", per_stream, "B")]
}

/// Makes a block of the sleeps with the numbers from 0 on, and polls it once.
pub fn block<S>(sleep: impl Fn(u64) -> S) -> Block
where
    S: Future<Output = ()> + Send + 'static,
{
    // An `or` has no state of its own, and polls both futures.
    let sixteen = pair(pair(pair(pair(sleep, 1), 2), 4), 8);
    let mut block = Box::pin(sixteen(0));
    assert!(is_pending(block.as_mut()));
    block
}

fn pair<S: Future>(make: impl Fn(u64) -> S, size: u64) -> impl Fn(u64) -> Or<S, S> {
    move |i| or(make(i), make(i + size))
}

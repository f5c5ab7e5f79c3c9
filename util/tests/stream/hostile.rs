//! Wakers that panic when they are cloned, woken or dropped. No adapter loses an item because of them.

use super::*;

/// A waker that calls a closure when it is cloned, woken or dropped.
struct Calls(Arc<dyn Fn() + Send + Sync>);

impl Clone for Calls {
    fn clone(&self) -> Self {
        (self.0)();
        Self(self.0.clone())
    }
}

impl WakeRef for Calls {
    fn wake_by_ref(&self) {
        (self.0)();
    }
}

impl cooked_waker::Wake for Calls {}

impl Drop for Calls {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A stream with an item at each of these milliseconds. It uses no waker, because the test polls it every millisecond.
fn items(at: &[u64]) -> impl Stream<Item = u64> + Unpin + use<> {
    let start = Instant::now();
    let mut left: VecDeque<u64> = at.iter().copied().collect();
    FromFn(move |_: &mut Context<'_>| match left.front() {
        None => Poll::Ready(None),
        Some(at) if Instant::now() >= start + ms(*at) => Poll::Ready(left.pop_front()),
        Some(_) => Poll::Pending,
    })
}

/// Turns ticks into the times since now, so that two runs have the same.
fn since_start(
    mut ticks: impl Stream<Item = Instant> + Unpin,
) -> impl Stream<Item = Duration> + Unpin {
    let start = Instant::now();
    FromFn(move |cx: &mut Context<'_>| {
        let tick = Pin::new(&mut ticks).poll_next(cx);
        tick.map(|tick| Some(tick? - start))
    })
}

/// Polls a stream once each millisecond, until it has ended or 60 ms have passed. Returns its items.
async fn collect<S: Stream + Unpin>(mut stream: S, waker: impl Fn() -> Waker) -> Vec<S::Item> {
    let mut items = Vec::new();
    for _ in 0..60 {
        for _ in 0..8 {
            // Without this wrapper, the drop of the test's own waker would panic.
            let waker = ManuallyDrop::new(waker());
            let mut cx = Context::from_waker(&waker);
            match catch_unwind(AssertUnwindSafe(|| {
                Pin::new(&mut stream).poll_next(&mut cx)
            })) {
                Ok(Poll::Ready(Some(item))) => items.push(item),
                Ok(Poll::Ready(None)) => return items,
                Ok(Poll::Pending) => break,
                Err(_) => {}
            }
        }
        tokio::time::advance(ms(1)).await;
        settle().await;
    }
    items
}

fn all<S: Stream<Item: PartialEq + Debug> + Unpin>(make: impl Fn() -> S) {
    let run = |waker: &dyn Fn() -> Waker| paused().block_on(async { collect(make(), waker).await });
    let expected = run(&|| Waker::noop().clone());
    assert!(expected.len() > 2);
    for first in 0..16 {
        for step in [1, 1_000] {
            let operations = AtomicUsize::new(0);
            // Panics at its operation number `first`, and then at every `step`th operation.
            let operate = Arc::new(move || {
                let number = operations.fetch_add(1, Ordering::Relaxed);
                if number >= first && (number - first) % step == 0 && !thread::panicking() {
                    quiet_panic();
                }
            });
            let waker = || Box::new(Calls(operate.clone())).into_waker();
            assert_eq!(run(&waker), expected, "first {first}, step {step}");
        }
    }
}

const AT: [u64; 9] = [0, 1, 2, 12, 13, 20, 40, 41, 42];

#[test]
fn no_adapter_loses_an_item() {
    all(|| items(&AT).timeout(ms(5)));
    all(|| items(&AT).timeout_repeating(interval(ms(5))));
    all(|| items(&AT).throttle(ms(3)));
    all(|| items(&AT).chunks_timeout(4, ms(5)));
    all(|| items(&AT).debounce(ms(5)));
    all(|| since_start(IntervalStream::new(interval(ms(5)))));
    all(|| since_start(JitteredInterval::new(|| ms(5))));
}

//! Tests of the memory that a scheduled task takes. An entry holds the future once. A run also holds
//! the future once. If a run were an `async` block, it would hold the future twice.

use std::{
    future::{Future, pending},
    ops::ControlFlow,
};
#[cfg(target_os = "linux")]
use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::time::{Duration, Instant};

use super::{
    entry::{Entry, Run},
    work::{AfterRun, Once, Pace, Periodic, Work},
};

const LARGE: usize = 40_000;

/// The largest number of bytes that an entry may add to its future. These bytes hold a deadline, some
/// pointers and the state.
const LITTLE: usize = 128;

fn large() -> impl Future<Output = ControlFlow<usize>> + Send {
    let held = [1_u8; LARGE];
    async move {
        pending::<()>().await;
        ControlFlow::Break(held.len())
    }
}

fn close_to_large(size: usize) {
    assert!((LARGE..=LARGE + LITTLE).contains(&size), "{size} bytes");
}

fn size_of_task<W: Work, R>(_run: &R) -> usize {
    size_of::<Run<W, R>>()
}

fn sizes_of<W: Work>(work: impl Fn() -> W) {
    close_to_large(size_of::<Entry<W>>());
    sizes_of_runs(work);
}

fn sizes_of_runs<W: Work>(work: impl Fn() -> W) {
    let now = Instant::now();
    close_to_large(size_of_task::<W, _>(&work().run(now)));
}

#[test]
fn a_future_is_held_once() {
    sizes_of(|| Once(large()));
}

#[test]
fn a_closure_is_held_once() {
    let held = [1_u8; LARGE];
    sizes_of(|| Periodic {
        make: move || {
            std::hint::black_box(&held);
            async {}
        },
        period: Duration::MAX,
        pace: Pace::FixedDelay,
    });
}

/// A run of a periodic task also holds its future once.
#[test]
fn the_future_of_a_closure_is_held_once() {
    sizes_of_runs(|| Periodic {
        make: large,
        period: Duration::MAX,
        pace: Pace::FixedDelay,
    });
}

/// The result type of a task that runs only once has no field for the next run. So it uses less memory.
#[test]
fn the_end_of_a_run_is_small() {
    fn size_of_end<W: Work>(_work: &W) -> usize {
        size_of::<AfterRun<W>>()
    }
    let size = size_of_end(&Once(large()));
    assert!(size <= LITTLE, "{size} bytes");
}

/// An entry takes 152 bytes, including the two counts of its `Arc`. `docs/figures/companion.md` names this size.
#[cfg(target_os = "linux")]
#[test]
fn an_entry_is_as_small_as_the_readme_says() {
    struct Captured(#[expect(dead_code, reason = "it takes room")] [u64; 8]);
    impl Future for Captured {
        type Output = u64;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
            Poll::Pending
        }
    }
    let counts = 2 * size_of::<usize>();
    assert_eq!(counts + size_of::<Entry<Once<Captured>>>(), 152);
}

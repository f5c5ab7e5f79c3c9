//! What a scheduled task takes, from entry to end: its future is held once in each place, where an
//! `async` block would hold it twice.

use std::{
    future::{Future, pending},
    pin::pin,
    task::{Context, Poll, Waker},
};

use tokio::time::{Duration, Instant};

use super::{
    Unstarted,
    entry::{Entry, Run},
    id::Id,
    work::{Once, Pace, Periodic, Work},
};

const LARGE: usize = 40_000;

/// What may come on top: a deadline, a pointer, and what tells states apart.
const LITTLE: usize = 128;

fn large() -> impl Future<Output = usize> + Send {
    let held = [1_u8; LARGE];
    async move {
        pending::<()>().await;
        held.len()
    }
}

fn close_to_large(size: usize) {
    assert!((LARGE..=LARGE + LITTLE).contains(&size), "{size} bytes");
}

fn sizes_of<W: Work>(work: W) {
    close_to_large(size_of::<Entry<W>>());
    close_to_large(size_of::<Run<W>>());
    let unstarted = Unstarted::new(Id::next(), Instant::now(), work);
    close_to_large(size_of_val(&*unstarted.future));
}

#[test]
fn a_future_is_held_once() {
    sizes_of(Once(large()));
}

#[test]
fn a_closure_is_held_once() {
    let held = [1_u8; LARGE];
    sizes_of(Periodic {
        make: move || {
            std::hint::black_box(&held);
            async {}
        },
        pace: Pace::FixedDelay {
            delay: Duration::MAX,
        },
    });
}

/// What a run of a task that never comes again may be followed by takes no room on the stack.
#[test]
fn the_end_of_a_run_is_small() {
    let mut run = pin!(Once(large()).run(Instant::now()));
    let end = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(end, Poll::Pending));
    assert!(size_of_val(&end) <= LITTLE, "{} bytes", size_of_val(&end));
}

/// An entry of the README's table: with the two counts of its `Arc`, 152 bytes.
#[cfg(target_os = "linux")]
#[test]
fn an_entry_is_as_small_as_the_readme_says() {
    struct Captured(#[expect(dead_code, reason = "it takes room")] [u64; 8]);
    impl Future for Captured {
        type Output = u64;

        fn poll(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
            Poll::Pending
        }
    }
    let counts = 2 * size_of::<usize>();
    assert_eq!(counts + size_of::<Entry<Once<Captured>>>(), 152);
}

//! Tests of the memory that a scheduled task takes. A waiting task holds its future once, and so does a run.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_wheel::Duration;

use tokio_wheel::Sleep;

use super::entry::Entry;
use super::work::{Periodic, Work};

const LARGE: usize = 40_000;

fn entry_of<W: Work>(_work: W) -> usize {
    size_of::<Entry<W>>()
}

#[test]
fn a_future_and_a_closure_are_held_once() {
    let held = [1_u8; LARGE];
    let once = entry_of(async move { held.len() });
    let make = move || {
        std::hint::black_box(&held);
        async {}
    };
    let (period, behavior) = (Duration::MAX, None);
    let periodic = entry_of(Periodic {
        make,
        period,
        behavior,
    });
    for size in [once, periodic] {
        assert!((LARGE..=LARGE + 160).contains(&size), "{size} bytes");
    }
}

struct Captured(#[expect(dead_code, reason = "it takes room")] [u64; 8]);
impl Future for Captured {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        Poll::Pending
    }
}

/// An entry takes 184 bytes, including the two counts of its `Arc`. `docs/figures/companion.md` names this size.
#[cfg(target_os = "linux")]
#[test]
fn an_entry_is_as_small_as_the_page_says() {
    let counts = 2 * size_of::<usize>();
    // With tokio-wheel's feature `call-sites`, a sleep takes 8 bytes more.
    let site = size_of::<Sleep>() - 32;
    assert_eq!(counts + size_of::<Entry<Captured>>() - site, 184);
}

//! The stream adapters. `parity` and `ties` compare them with `tokio-stream`. `ours` tests what only this crate has, in
//! another file, because no scope can have both traits `StreamExt`.

#![cfg(feature = "stream")]

mod debounce;
mod ours;
mod parity;
mod ties;

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Waker, ready},
    vec,
};

use futures_core::Stream;
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::coop::poll_proceed,
};
use tokio_test::{assert_pending, assert_ready, assert_ready_eq, task};
use tokio_wheel::{Duration, Instant, Timer, advance, interval, interval_at, sleep_until};
use tokio_wheel_util::stream::{IntervalStream, JitteredInterval, StreamExt};

use crate::support::{
    Wakes, beside_a_greedy_sibling, does_not_hang, ms, multi_thread,
    panics::{assert_panics, panic_of},
    paused, poll_once, secs, wait_until,
};

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

async fn peek<S: Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *stream).poll_next(cx))).await
}

/// A stream that calls a closure in each poll, also after its end.
struct FromFn<F>(F);

impl<T, F: FnMut(&mut Context<'_>) -> Poll<Option<T>> + Unpin> Stream for FromFn<F> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        (self.0)(cx)
    }
}

/// A stream of the items that a channel receives.
struct Received<T>(UnboundedReceiver<T>);

impl<T> Stream for Received<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(cx)
    }
}

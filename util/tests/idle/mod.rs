//! Tests of `tokio_wheel_util::idle`: against a model, with hostile keys and wakers, and on real threads.

#![cfg(feature = "idle")]

mod basics;
mod ends;
mod oracle;
mod shed;
mod user_code;
mod wakes;
mod work;

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tokio_stream::StreamExt;
use tokio_test::{assert_pending, assert_ready, assert_ready_eq, task};
use tokio_wheel::{Duration, Instant, Timer, advance, sleep};
use tokio_wheel_util::idle::{
    IdleSet, Reaper,
    Touched::{self, Absent, Closed, Inserted, Present},
};

use crate::support::{
    Wakes, does_not_hang,
    hostile::{Hook, quiet_panic},
    ms,
    panics::assert_panics,
    paused, polls_and_turns, secs, settle,
};

fn poll<K>(reaper: &mut Reaper<K>, waker: &Waker) -> Poll<Option<K>> {
    reaper.poll_reap(&mut Context::from_waker(waker))
}

/// Returns a set with one shard, so that all keys are behind the same lock.
fn one_shard<K>(timeout: Duration) -> (IdleSet<K>, Reaper<K>) {
    IdleSet::builder(timeout).shards(1).build()
}

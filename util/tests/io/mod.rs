//! Tests `tokio_wheel_util::io` under the paused clock.

#![cfg(feature = "io")]

mod script;

mod bookkeeping;
mod oracle;
mod rate;
mod same;
mod timeouts;
mod tunnel;

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    io::{self, IoSlice},
    iter::Cycle,
    pin::{Pin, pin},
    slice,
    task::{Context, Poll, ready},
};

use proptest::{collection, option};
use tokio::{
    io::{
        AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream, DuplexStream, ReadBuf,
        ReadHalf, WriteHalf, duplex, split,
    },
    task::coop,
    time::{Sleep, sleep_until},
};
use tokio_test::{assert_pending, assert_ready_err, io::Builder, task};
use tokio_wheel::{Duration, Instant, Metrics, Timer, advance, sleep};
use tokio_wheel_util::io::{LimitExceeded, Limits, MinRate, TimeoutStream};

use script::Scripted;

use crate::support::{
    beside_a_greedy_sibling, current_thread,
    log::{Log, side_by_side},
    ms,
    panics::assert_panics,
    paused, secs,
};

fn set<T>(limits: Limits, limit: Option<T>, setter: fn(Limits, T) -> Limits) -> Limits {
    limit.map_or(limits, |limit| setter(limits, limit))
}

/// Returns the limit that an operation has exceeded.
#[track_caller]
fn exceeded<T: std::fmt::Debug>(result: io::Result<T>) -> LimitExceeded {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    error.downcast().unwrap()
}

//! `DelayQueue`: random programs compare it with tokio-util's queue, and the other tests show what they do not compare.

#![cfg(feature = "delay_queue")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tokio_stream::{Stream, StreamExt};
use tokio_test::{assert_pending, assert_ready, task};
use tokio_wheel::{Duration, Instant, Timer};
use tokio_wheel_util::delay_queue::{self, DelayQueue};

use crate::support::{
    Wakes, current_thread,
    hostile::{Hook, PanicsOnDrop, quiet_panic},
    ms,
    panics::{Panicked, assert_panics, panic_of},
    paused, polls_and_turns, secs, settle,
};

mod memory;
mod oracle;
mod order;
mod panics;
mod wakes;
mod work;

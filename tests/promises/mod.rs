//! Tests of the crate's promises, one module for each promise. `docs/testing.md` lists the
//! promises.

#![cfg(feature = "test-util")]

use std::{
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Poll, Waker},
    thread,
};

use proptest::prelude::*;
use tokio::{
    runtime::{Handle, Runtime},
    task::{JoinSet, coop, yield_now},
};
use tokio_test::{assert_pending, assert_ready, task};
use tokio_wheel::{Duration, Instant, Sleep, Timer, advance, sleep, sleep_until, timeout};

use crate::support::{
    Wakes, block_on, current_thread, does_not_hang,
    hostile::{Hook, PanicsOnDrop, quiet_panic, use_shard},
    ms, multi_thread, paused, poll, poll_once, secs, settle, wait_until, without_time,
};

const YEAR: Duration = secs(365 * 86_400);

mod attacks;
mod p01_never_early;
mod p02_never_lost;
mod p03_lateness;
mod p04_cost_of_a_gap;
mod p05_no_tick_without_a_reason;
mod p06_bounded_work;
mod p07_no_user_code_under_a_lock;
mod p08_a_panicking_waker_harms_nobody_else;
mod p09_keys_never_alias;
mod p10_runtime_end;
mod p11_cooperative;
mod p12_paused_clock;
mod p13_memory;
mod p14_reset_to_a_later_deadline_moves_nothing;
mod p15_dropped;

//! Tests of the crate's promises, one module for each promise.
//!
//! The table names some tests of each promise, also tests outside of its module. `tests/docs.rs` checks that they exist.
//!
//! | number | promise | test |
//! |---|---|---|
//! | 1 | **Never early.** A sleep is not ready before its deadline | `p01_never_early::whatever_the_tick_and_the_deadline`, `p01_never_early::any_duration_saturates` |
//! | 2 | **Never lost.** Every registered entry fires, unless it is deregistered or its timer shuts down | `p02_never_lost::every_sleep_fires_however_registration_and_driver_interleave`, `timer::loom_tests::register_races_arm` |
//! | 3 | **Lateness.** A timer is late by at most one tick and one wake-up of the driver, and a worker that blocks stops nobody | `p03_lateness::the_default_tick_is_not_later_than_tokio`, `p03_lateness::a_worker_that_blocks_stops_neither_timers_nor_sockets` |
//! | 4 | **O(1).** The cost of registering, deregistering and resetting does not depend on the number of entries, and the cost of a long gap only on the slots visited | `p04_cost_of_a_gap::ten_years_cost_slots_visited`, `wheel::a_long_gap_costs_slots_visited` |
//! | 5 | **No tick without a reason.** The driver sleeps until the next expiration | `p05_no_tick_without_a_reason::pending_far_timers_cost_nothing_while_idle`, `timer::tests::canceled_timers_wake_the_driver_once` |
//! | 6 | **Bounded work.** After a limited amount of work, the driver lets other tasks run | `p06_bounded_work::a_storm_due_in_one_slot_leave_others_their_turns`, `p06_bounded_work::cascading_out_of_one_slot_leaves_others_their_turns` |
//! | 7 | **No user code under a lock.** No waker is cloned, woken or dropped while a lock is held | `p07_no_user_code_under_a_lock::wake_may_drop_a_sleep_of_the_same_batch`, `p07_no_user_code_under_a_lock::clone_may_touch_the_shard_at_registration` |
//! | 8 | **A panicking waker harms no other timer** | `p08_a_panicking_waker_harms_nobody_else::when_wake_panics`, `p08_a_panicking_waker_harms_nobody_else::when_the_drop_of_a_woken_waker_panics` |
//! | 9 | **Keys never alias.** The key of an entry that has left the wheel never names another entry | `p09_keys_never_alias::stale_futures_do_not_touch_the_entries_in_their_places`, `wheel::nodes::tests::stale_keys_never_alias` |
//! | 10 | **Runtime end.** Nothing hangs or leaks when a runtime shuts down | `p10_runtime_end::who_waits_is_woken_and_told`, `p10_runtime_end::timers_may_be_used_while_the_runtime_shuts_down` |
//! | 11 | **Cooperative.** A loop over ready sleeps uses up tokio's budget and yields. A timeout expires even if its future uses up the budget | `p11_cooperative::ready_sleeps_in_a_loop_let_others_run`, `p11_cooperative::a_timeout_of_a_greedy_future_expires` |
//! | 12 | **Paused clock.** Everything works under a paused clock that advances by itself | `p04_cost_of_a_gap::ten_years_cost_slots_visited`, `p12_paused_clock::a_leap_fires_in_order` |
//! | 13 | **Memory.** A pending sleep takes at most 80 bytes, including its future and its entry | `p13_memory::a_sleep_is_small`, `wheel::nodes::tests::a_waker_takes_40_bytes` |
//! | 14 | **`reset` to a later deadline moves nothing.** It only stores the new deadline | `p14_reset_to_a_later_deadline_moves_nothing::the_entry_stays_in_its_old_slot_until_that_is_due`, `wheel::a_later_reset_stores_and_an_earlier_one_moves` |
//! | 15 | **A dropped future is gone.** It wakes no task and counts as canceled. A worker keeps two entries at most | `p15_dropped::a_dropped_sleep_wakes_no_task_and_is_not_pending`, `driver::loom_tests::keeping_races_fire` |
//! | 16 | **Counts are what happened.** `Metrics` counts each entry and each block once | `p16_counts::a_block_counts_once_and_is_no_longer_than_it_was`, `p16_counts::a_timer_says_whether_it_is_watched` |

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
    net::TcpListener,
    runtime::{Handle, Runtime},
    task::{JoinSet, coop, yield_now},
};
use tokio_test::{assert_pending, assert_ready, task};
use tokio_wheel::{Duration, Instant, Sleep, Timer, advance, sleep, sleep_until, timeout};

use crate::support::{
    Wakes, block_on, current_thread, does_not_hang, elsewhere,
    hostile::{Hook, PanicsOnDrop, quiet_panic, use_shard},
    ms, multi_thread, paused, pending as pending_sleep, poll, poll_once, registered, secs, settle,
    wait_until,
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
mod p16_counts;

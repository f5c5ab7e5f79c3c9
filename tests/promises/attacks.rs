//! Clients that choose when to connect, for how long and how often.
//!
//! The tables name the tests of each row of `SECURITY.md`, and `tests/docs.rs` compares the rows. This file has the tests
//! that no other file has. The soak, which `.ci/run soak` runs, checks the rows about locks and memory too.
//!
//! | a client cannot | test |
//! |---|---|
//! | make a timer fire early | `p01_never_early::any_duration_saturates`, `resolution::never_early::the_ordinary_timer`, `io::timeouts::the_longest_durations_saturate` |
//! | make a timer get lost by its timing | `p02_never_lost::every_sleep_fires_however_registration_and_driver_interleave`, `timer::simulation::all_promises_hold_after_every_step`, `.ci/loom` |
//! | make timers expensive, by their number, deadlines or resets | `.ci/instructions`, `timer::tests::a_lone_timer_wakes_the_driver_once_a_level`, `p14_reset_to_a_later_deadline_moves_nothing::however_often_it_is_reset_it_is_visited_once_for_a_level`, `p14_reset_to_a_later_deadline_moves_nothing::the_entry_stays_in_its_old_slot_until_that_is_due` |
//! | keep the driver busy, by timers at every instant or canceled ones | `attacks::timers_at_every_tick_wake_the_driver_once_in_a_millisecond`, `timer::tests::canceled_timers_wake_the_driver_once`, `p05_no_tick_without_a_reason::pending_far_timers_cost_nothing_while_idle` |
//! | make a thread hold a lock for long | `p06_bounded_work::a_storm_due_in_one_slot_leave_others_their_turns`, `p06_bounded_work::cascading_out_of_one_slot_leaves_others_their_turns`, `wheel::nodes::tests::neither_allocates_nor_frees`, `idle::table::tests::no_operation_moves_many_records` |
//! | occupy a worker | `p06_bounded_work::many_shards_leave_others_their_turns`, `idle::work::tasks_that_yield_have_their_turns` |
//! | delay others' timers, by idle connections (but see below), endless short timers, or a storm in another shard | `timer::starved::turns_to_wait_depend_on_what_is_due`, `wheel::a_storm_that_cascades_keeps_nothing_waiting_that_is_due`, `wheel::a_short_timer_is_in_a_fine_slot`, `wheel::late_entries_fire_in_the_order_of_their_deadlines`, `wheel::a_late_storm_does_not_stop_the_cascades`, `driver::drive::tests::a_turn_on_a_clock_that_stands_still_ends_and_continues_at_the_next_shard` |
//! | leave entries or memory behind when it disconnects | `timer::tests::canceled_timers_wake_the_driver_once`, `wheel::to_insert_and_remove_takes_no_more_memory`, `timer::tests::a_shard_frees_the_memory_of_a_peak`, `idle::keys::tests::memory_goes_back_as_keys_go`, `delay_queue::memory::memory_goes_back_when_elements_are_removed` |
//! | be taken for another client, by an old key or a hash | `p09_keys_never_alias::stale_futures_do_not_touch_the_entries_in_their_places`, `wheel::nodes::tests::stale_keys_never_alias`, `idle::basics::unequal_keys_may_have_equal_hashes` |
//! | break other timers or hold a lock, by a waker | `p08_a_panicking_waker_harms_nobody_else::when_wake_panics`, `schedule::hostile_tasks::the_others_run`, `p07_no_user_code_under_a_lock::wake_may_drop_a_sleep_of_the_same_batch`, `p07_no_user_code_under_a_lock::a_dropped_sleep_may_take_down_another_with_its_waker` |
//! | prevent a timeout, by a busy inner future | `p11_cooperative::a_timeout_of_a_greedy_future_expires` |
//! | hold a slow or silent HTTP connection | `hyper::stages::a_first_head_that_never_ends`, `hyper::stages::a_client_of_http2_that_sends_no_frame`, `hyper::timer::a_client_that_dribbles_headers_is_closed`, `io::oracle::limits_are_exceeded_when_a_count_of_milliseconds_says_so` |
//! | exceed the `max_pending` of a `Scheduler` | `schedule::limit::what_is_beyond_the_limit_is_refused`, `schedule::loom_tests::tasks_race_at_the_limit` |
//!
//! | a client can | test |
//! |---|---|
//! | take memory: 75 bytes for each pending sleep, and 40 for each past one in a chunk of 256 with a pending one | `wheel::nodes::tests::a_waker_takes_40_bytes`, `wheel::who_stays_keeps_no_more_than_the_peak_had` |
//! | make a list double, which copies at most 104 bytes for each 256 timers under a shard's lock | `wheel::nodes::tests::a_chunk_takes_104_bytes_in_the_lists` |
//! | choose long limits, for which a worker also keeps the wakers of two canceled timers | `p15_dropped::a_worker_keeps_two_entries_at_most` |
//! | choose long keys, which an idle set compares under a lock | `idle::user_code::a_panicking_eq_leaves_all_as_it_was` |
//! | make `Reaper::shed` move many entries, each once | `idle::shed::a_shed_of_touched_keys_takes_turns`, `idle::shed::a_short_timeout_behind_a_shed_moves_no_other_entry` |
//! | make a full server close the most silent clients, or refuse their tasks at `max_pending` | `idle::shed::the_keys_that_are_silent_for_longest_go_first`, `schedule::limit::a_refused_task_is_not_kept`, `schedule::limit::cancelling_and_firing_make_room` |
//! | make `DelayQueue::peek` visit all elements near the first deadline | `delay_queue::order::peek_names_what_a_poll_returns_next` |
//! | delay others, until an expired storm has fired and run ([benchmarks](docs/figures.md#timers-that-fire)) | `p06_bounded_work::a_storm_due_in_one_slot_leave_others_their_turns`, `api::metrics::all_batches_and_shards_count` |
//! | delay a long timer on a busy runtime, by 1 to 4 ms for each 5,000 timers in its [coarse slot](docs/limitations.md#long-sleeps-on-a-busy-runtime) | `timer::starved::turns_to_wait_depend_on_what_is_due`, `wheel::no_backlog_waits_forever` |
//! | delay others, by requests whose handlers block workers ([limitations](docs/limitations.md#blocked-workers)) | `p03_lateness::a_worker_that_blocks_makes_no_other_timer_late`, `p03_lateness::a_worker_that_blocks_stops_neither_timers_nor_sockets` |

use super::*;

const TICK: Duration = Duration::from_nanos(15_625);

/// The alarm has a resolution of a millisecond, which has 64 default ticks.
#[tokio::test(start_paused = true)]
async fn timers_at_every_tick_wake_the_driver_once_in_a_millisecond() {
    const TICKS: u32 = 64_000;
    let timer = Timer::current();
    let start = Instant::now();
    let (wakes, waker) = Wakes::new();
    let sleeps = (1..=TICKS).map(|n| registered(sleep_until(start + TICK * n), &waker));
    let sleeps: Vec<_> = sleeps.collect();
    settle().await;
    let before = timer.metrics().driver_wakeups();
    while wakes.count() < sleeps.len() {
        tokio::time::sleep(ms(10)).await;
    }
    let wakeups = u128::from(timer.metrics().driver_wakeups() - before);
    let took = start.elapsed().as_millis();
    assert!(took >= 1_000, "early, after {took} ms");
    assert!(wakeups <= took, "{wakeups} wake-ups in {took} ms");
}

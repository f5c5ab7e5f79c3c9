//! A queue with much work lets other tasks run.

use super::*;
use crate::support::until_another_task_runs;

const MANY: usize = 100_000;

/// The steps of the wheel in one poll, which take about a millisecond.
const MOST_AT_ONCE: usize = 16_384;

#[tokio::test(start_paused = true)]
async fn what_is_due_comes_out_in_turns() {
    let mut queue = DelayQueue::new();
    for n in 0..MANY {
        queue.insert(n, ms(1));
    }
    tokio::time::sleep(ms(1)).await;
    until_another_task_runs(async || assert!(queue.next().await.is_some())).await;
}

/// All elements were postponed. The queue must move them all before any of them expires, as out of one slot in `wheel::tests`.
#[tokio::test(start_paused = true)]
async fn tasks_that_yield_have_their_turns() {
    let mut queue = DelayQueue::new();
    let keys: Vec<_> = (0..MANY).map(|n| queue.insert(n, ms(8_192))).collect();
    for (n, key) in keys.iter().enumerate() {
        queue.reset(key, secs(10 + n as u64));
    }
    tokio::time::sleep(ms(8_192)).await;
    let (polls, turns) = polls_and_turns(move |cx| queue.poll_expired(cx)).await;
    assert!(polls >= MANY / MOST_AT_ONCE, "only {polls} polls");
    assert!(turns > polls / 16, "only {turns} turns");
}

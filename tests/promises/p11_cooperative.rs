//! Promise 11, cooperative: a ready `Sleep` in a loop uses tokio's budget, and a `Timeout` expires without budget.

use super::*;
use crate::support::until_another_task_runs;

#[tokio::test(start_paused = true)]
async fn ready_sleeps_in_a_loop_let_others_run() {
    until_another_task_runs(async || sleep(Duration::ZERO).await).await;
}

#[tokio::test(start_paused = true)]
async fn ticks_to_be_made_up_for_let_others_run() {
    let mut interval = tokio_wheel::interval(ms(1));
    interval.tick().await;
    advance(secs(1_000)).await;
    until_another_task_runs(async || _ = interval.tick().await).await;
}

async fn greedy(polls: Arc<AtomicUsize>) {
    poll_fn(|cx| {
        let polls = polls.fetch_add(1, Ordering::Relaxed);
        assert!(polls < 10_000, "the timeout never ends the greedy future");
        while pin!(coop::consume_budget()).poll(cx).is_ready() {}
        Poll::<()>::Pending
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_a_greedy_future_expires() {
    let polls = Arc::new(AtomicUsize::new(0));
    let limited = tokio::spawn(timeout(ms(10), greedy(polls.clone())));
    settle().await;
    assert!(
        polls.load(Ordering::Relaxed) > 1,
        "the greedy future must be polled again"
    );
    assert!(!limited.is_finished());
    advance(ms(10)).await;
    assert!(limited.await.unwrap().is_err());
}

/// If the budget was used up before the timeout is polled, the timeout waits for new budget.
#[tokio::test(start_paused = true)]
async fn an_elapsed_timeout_costs_budget_as_well() {
    let elapsed = async || _ = timeout(Duration::ZERO, pending::<()>()).await;
    until_another_task_runs(elapsed).await;
}

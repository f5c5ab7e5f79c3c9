//! Promise 11, cooperative: a ready `Sleep` in a loop uses tokio's cooperative budget.
//!
//! A `Timeout` still expires if its inner future uses up the budget.

use super::*;

#[test]
fn ready_sleeps_in_a_loop_let_others_run() {
    paused().block_on(async {
        let ran = Arc::new(AtomicBool::new(false));
        let others = tokio::spawn({
            let ran = ran.clone();
            async move { ran.store(true, Ordering::Relaxed) }
        });
        let mut turns = 0;
        while !ran.load(Ordering::Relaxed) {
            sleep(Duration::ZERO).await;
            turns += 1;
            assert!(turns < 10_000, "the other task does not run");
        }
        others.await.unwrap();
    });
}

#[test]
fn ticks_to_be_made_up_for_let_others_run() {
    paused().block_on(async {
        let mut interval = tokio_wheel::interval(ms(1));
        interval.tick().await;
        advance(secs(1_000)).await;
        let others = tokio::spawn(async {});
        let mut turns = 0;
        while !others.is_finished() {
            interval.tick().await;
            turns += 1;
            assert!(turns < 10_000, "the other task does not run");
        }
    });
}

/// Uses up its budget at every poll, and never ends.
async fn greedy(polls: Arc<AtomicUsize>) {
    poll_fn(|cx| {
        let polls = polls.fetch_add(1, Ordering::Relaxed);
        assert!(polls < 10_000, "the timeout never ends the greedy future");
        while pin!(coop::consume_budget()).poll(cx).is_ready() {}
        Poll::<()>::Pending
    })
    .await;
}

#[test]
fn a_timeout_of_a_greedy_future_expires() {
    paused().block_on(async {
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
    });
}

/// If the budget was used up before the timeout is polled, the timeout waits for new budget.
#[test]
fn an_elapsed_timeout_costs_budget_as_well() {
    paused().block_on(async {
        let others = tokio::spawn(async {});
        let mut turns = 0;
        while !others.is_finished() {
            timeout(Duration::ZERO, pending::<()>()).await.unwrap_err();
            turns += 1;
            assert!(turns < 10_000, "the other task does not run");
        }
    });
}

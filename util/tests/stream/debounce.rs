//! Tests `Debounce`.

use proptest::prelude::*;

use super::*;

proptest! {
    /// No item comes at the instant at which a time is over, because either could be first.
    #[test]
    fn the_latest_item_comes_after_a_pause(
        pauses in prop::collection::vec(0..6_u64, 1..30),
        duration in 0..5_u64,
    ) {
        let duration = 10 * duration + 5;
        let mut times: Vec<u64> = pauses
            .iter()
            .scan(0, |now, pause| {
                *now += 10 * pause;
                Some(*now)
            })
            .collect();
        let end = times.pop().unwrap();
        let mut expected = Vec::new();
        for (item, time) in times.iter().enumerate() {
            match times.get(item + 1) {
                Some(next) if *next < time + duration => {}
                Some(_) => expected.push((item, ms(time + duration))),
                None => expected.push((item, ms(end.min(time + duration)))),
            }
        }
        let yielded = paused().block_on(async {
            let start = Instant::now();
            let (sender, receiver) = unbounded_channel();
            tokio::spawn(async move {
                for (item, time) in times.into_iter().enumerate() {
                    sleep_until(start + ms(time)).await;
                    sender.send(item).unwrap();
                }
                sleep_until(start + ms(end)).await;
            });
            let mut latest = Received(receiver).debounce(ms(duration));
            let mut yielded = Vec::new();
            while let Some(item) = next(&mut latest).await {
                yielded.push((item, start.elapsed()));
            }
            yielded
        });
        prop_assert_eq!(yielded, expected);
    }
}

/// A late poll yields the newer item. A poll before the end of the pause does not start the pause again.
#[tokio::test(start_paused = true)]
async fn a_ready_item_replaces_the_latest_item() {
    let (sender, receiver) = unbounded_channel();
    let mut latest = task::spawn(Received(receiver).debounce(ms(10)));
    for item in 1..=2 {
        sender.send(item).unwrap();
        assert_pending!(latest.poll_next());
        advance(ms(15)).await;
    }
    sender.send(3).unwrap();
    for _ in 0..2 {
        assert_pending!(latest.poll_next());
        advance(ms(5)).await;
    }
    assert!(latest.is_woken());
    assert_ready_eq!(latest.poll_next(), Some(3));
    assert_pending!(latest.poll_next());
    sender.send(4).unwrap();
    drop(sender);
    assert_ready_eq!(latest.poll_next(), Some(4));
    assert_ready_eq!(latest.poll_next(), None);
    assert_ready_eq!(latest.poll_next(), None);
}

/// Such a stream never pauses, even if it waits for the task's budget, and if the time elapses within a poll.
#[tokio::test]
async fn a_stream_that_never_rests_yields_only_its_last_item() {
    for takes_budget in [false, true] {
        let others = tokio::spawn(async {});
        let mut items = 0..100_000;
        let items = FromFn(|cx: &mut Context<'_>| {
            if takes_budget {
                ready!(poll_proceed(cx)).made_progress();
            }
            Poll::Ready(items.next())
        });
        let mut latest = items.debounce(Duration::ZERO);
        assert_eq!(next(&mut latest).await, Some(99_999));
        assert!(others.is_finished());
        assert_eq!(next(&mut latest).await, None);
    }
}

/// Without a pause, an item comes as soon as the inner stream is pending.
#[tokio::test(start_paused = true)]
async fn a_pause_of_zero_ends_at_once() {
    let start = Instant::now();
    let (sender, receiver) = unbounded_channel();
    let mut latest = Received(receiver).debounce(Duration::ZERO);
    for item in 0..3 {
        sender.send(item).unwrap();
        assert_eq!(next(&mut latest).await, Some(item));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

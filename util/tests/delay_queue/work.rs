//! A queue with much work lets other tasks run.

use super::*;

const MANY: usize = 100_000;

/// The steps of the wheel in one poll, which take about a millisecond.
const MOST_AT_ONCE: usize = 16_384;

/// The number of polls in a row without a wake, after which the runtime checks its I/O.
const QUIET_TURNS: usize = 16;

#[tokio::test(start_paused = true)]
async fn what_is_due_comes_out_in_turns() {
    let mut queue = DelayQueue::new();
    for n in 0..MANY {
        queue.insert(n, ms(1));
    }
    tokio::time::sleep(ms(1)).await;
    let others = tokio::spawn(async {});
    let mut drained = 0;
    while !others.is_finished() {
        assert!(queue.next().await.is_some());
        drained += 1;
        assert!(drained < 10_000, "starves the other task");
    }
}

/// All elements are in one slot of a coarse level. None has expired when that slot expires.
fn about_to_cascade() -> DelayQueue<usize> {
    let mut queue = DelayQueue::new();
    for n in 0..MANY {
        queue.insert(n, ms(8_193 + n as u64 % 4_000));
    }
    queue
}

/// All elements were postponed. The queue must move them all before any of them expires.
fn put_off() -> DelayQueue<usize> {
    let mut queue = DelayQueue::new();
    let keys: Vec<_> = (0..MANY).map(|n| queue.insert(n, ms(8_192))).collect();
    for (n, key) in keys.iter().enumerate() {
        queue.reset(key, secs(10 + n as u64));
    }
    queue
}

/// A task that calls tokio's `yield_now` waits until the runtime checks its I/O.
#[tokio::test(start_paused = true)]
async fn tasks_that_yield_have_their_turns() {
    for fill in [about_to_cascade, put_off] {
        let mut queue = fill();
        tokio::time::sleep(ms(8_192)).await;
        let polls = Arc::new(AtomicUsize::new(0));
        let drains = tokio::spawn({
            let polls = polls.clone();
            poll_fn(move |cx| {
                polls.fetch_add(1, Ordering::Relaxed);
                queue.poll_expired(cx).map(drop)
            })
        });
        let (mut turns, mut before) = (0, usize::MAX);
        while before != polls.load(Ordering::Relaxed) {
            before = polls.load(Ordering::Relaxed);
            tokio::task::yield_now().await;
            turns += 1;
        }
        assert!(before >= MANY / MOST_AT_ONCE, "only {before} polls");
        assert!(turns > before / QUIET_TURNS, "only {turns} turns");
        drains.abort();
    }
}

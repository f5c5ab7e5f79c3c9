//! A reaper with much work lets other tasks run.

use super::*;
use crate::support::{beside_a_greedy_sibling, until_another_task_runs};

const MANY: u32 = 40_000;

/// The maximal number of steps in one poll, which take at most a millisecond.
const MOST_AT_ONCE: usize = 2_048;

fn filled(timeout: Duration) -> (IdleSet<u32>, Reaper<u32>) {
    let (set, reaper) = IdleSet::new(timeout);
    (0..MANY).for_each(|key| _ = set.touch(&key));
    (set, reaper)
}

#[tokio::test(start_paused = true)]
async fn what_is_due_or_shed_comes_out_in_turns() {
    for sheds in [false, true] {
        let (_set, mut reaper) = filled(ms(1));
        sleep(ms(1)).await;
        until_another_task_runs(async || {
            let key = match sheds {
                true => reaper.shed().await,
                false => reaper.reap().await,
            };
            assert!(key.is_some());
        })
        .await;
    }
}

/// All keys were postponed, so the reaper must move every entry.
#[tokio::test(start_paused = true)]
async fn tasks_that_yield_have_their_turns() {
    let (set, mut reaper) = filled(ms(8_192));
    for key in 0..MANY {
        set.touch_with_timeout(&key, secs(10 + u64::from(key)));
    }
    sleep(ms(8_193)).await;
    let (polls, turns) = polls_and_turns(move |cx| reaper.poll_reap(cx)).await;
    assert!(polls >= MANY as usize / MOST_AT_ONCE, "only {polls} polls");
    assert!(turns > polls / 16, "only {turns} turns");
}

/// A search over very many shards counts as work.
#[tokio::test(start_paused = true)]
async fn very_many_shards_are_visited_in_turns() {
    let builder = IdleSet::builder(secs(1)).shards(1_024);
    let (set, mut reaper) = builder.build();
    // With this many keys, all shards exist.
    for key in 1_000..20_000_u64 {
        set.touch_with_timeout(&key, secs(1_000_000));
    }
    for key in 0..200_u64 {
        set.touch_with_timeout(&key, ms(key));
    }
    for key in 0..200 {
        assert_eq!(set.remove(&key), Some(key));
        set.touch_with_timeout(&key, ms(key));
        set.touch_with_timeout(&key, secs(100));
    }
    sleep(secs(1)).await;
    let polls = AtomicUsize::new(0);
    let reaped = poll_fn(|cx| {
        polls.fetch_add(1, Ordering::Relaxed);
        reaper.poll_reap(cx)
    });
    assert!(reaped.await.is_some());
    let polls = polls.into_inner();
    assert!((2..200).contains(&polls), "{polls} polls for 200 ticks");
}

/// A sibling in the same task always uses up the budget first.
#[tokio::test(start_paused = true)]
async fn keys_expire_beside_a_greedy_sibling() {
    let (set, mut reaper) = IdleSet::new(ms(10));
    for key in 0..3 {
        set.touch(&key);
    }
    let mut reaped = Vec::new();
    for _ in 0..3 {
        reaped.extend(beside_a_greedy_sibling(reaper.reap()).await);
    }
    reaped.sort_unstable();
    assert_eq!(reaped, [0, 1, 2]);
    set.touch(&3);
    set.touch(&4);
    assert!(beside_a_greedy_sibling(reaper.shed()).await.is_some());
    assert!(beside_a_greedy_sibling(reaper.shed()).await.is_some());
}

//! Sheds: keys that the set returns before their deadlines. `shards_keep_their_invariants` has keys that never end.

use super::*;

/// Returns a set whose keys were touched one second apart, beginning with key 0.
async fn aged(keys: u64) -> (IdleSet<u64>, Reaper<u64>) {
    let (set, reaper) = IdleSet::new(secs(60));
    for key in 0..keys {
        set.touch(&key);
        sleep(secs(1)).await;
    }
    (set, reaper)
}

async fn shed(reaper: &mut Reaper<u64>, count: usize) -> Vec<u64> {
    let mut shed = Vec::new();
    while shed.len() < count {
        let Some(key) = reaper.shed().await else {
            break;
        };
        shed.push(key);
    }
    shed
}

#[tokio::test(start_paused = true)]
async fn the_keys_that_are_silent_for_longest_go_first() {
    let (set, mut reaper) = aged(10).await;
    set.touch(&0);
    set.touch_with_timeout(&9, secs(1));
    assert_eq!(shed(&mut reaper, 4).await, [9, 1, 2, 3]);
    assert_eq!(set.len(), 6);
    assert_eq!(shed(&mut reaper, 0).await, []);
    assert_eq!(shed(&mut reaper, usize::MAX).await, [4, 5, 6, 7, 8, 0]);
    assert!(set.is_empty());
    assert_eq!(shed(&mut reaper, 1).await, []);
}

/// All keys were touched, so a shed moves every entry before it finds a key. It is dropped after each poll.
#[tokio::test(start_paused = true)]
async fn a_shed_of_touched_keys_takes_turns() {
    const KEYS: u64 = 40_000;
    /// The maximal number of steps in one poll.
    const STEPS: u64 = 2_048;
    let (set, mut reaper) = IdleSet::new(secs(60));
    for key in 0..KEYS {
        set.touch(&key);
    }
    sleep(secs(30)).await;
    for key in 0..KEYS {
        set.touch(&key);
    }
    let (_, waker) = Wakes::new();
    let mut polls = 0;
    let first = loop {
        polls += 1;
        let polled = reaper.poll_shed(&mut Context::from_waker(&waker));
        if let Poll::Ready(key) = polled {
            break key;
        }
    };
    assert!(first.is_some());
    assert!(polls > KEYS / STEPS, "only {polls} polls");
    let mut rest = shed(&mut reaper, usize::MAX).await;
    rest.extend(first);
    rest.sort_unstable();
    assert!(rest.into_iter().eq(0..KEYS));
}

/// A server at its limit gives each new connection a short timeout for its handshake, and sheds a key.
#[tokio::test(start_paused = true)]
async fn a_short_timeout_behind_a_shed_moves_no_other_entry() {
    const KEYS: u64 = 100_000;
    let (set, mut reaper) = IdleSet::new(secs(60));
    for key in 0..KEYS {
        set.touch_with_timeout(&key, secs(35) + Duration::from_micros(250 * key));
    }
    assert_eq!(shed(&mut reaper, 1).await, [0]);
    let (_, waker) = Wakes::new();
    for n in 0..100 {
        set.touch_with_timeout(&(KEYS + n), secs(5));
        set.touch_with_timeout(&(KEYS + n), secs(60));
        // The shed must succeed in one poll, which makes at most 2,048 steps.
        let polled = reaper.poll_shed(&mut Context::from_waker(&waker));
        assert!(matches!(polled, Poll::Ready(Some(_))), "{polled:?}");
    }
}

//! Scenarios of the wheel of buckets that network servers use for idle connections.
//!
//! Such a wheel is a ring of buckets, and the server empties one bucket every second.

use super::*;

/// Returns the next `count` keys, each with the second in which it expired.
async fn expired(reaper: &mut Reaper<u32>, start: Instant, count: usize) -> Vec<(u32, u64)> {
    let mut all = Vec::new();
    while all.len() < count {
        let id = reaper.reap().await.unwrap();
        all.push((id, start.elapsed().as_secs()));
    }
    all
}

#[tokio::test(start_paused = true)]
async fn to_add_again_rearms() {
    let start = Instant::now();
    let (wheel, mut reaper) = IdleSet::new(secs(8));
    for id in [1, 2] {
        assert_eq!(wheel.touch(&id), Inserted);
    }
    for _ in 0..5 {
        sleep(secs(7)).await;
        assert_eq!(wheel.touch(&1), Present);
    }
    assert_eq!(
        expired(&mut reaper, start, 1).await,
        [(2, 35)],
        "the key expired at 8 s, and the test asked for it at 35 s"
    );
    assert_eq!(expired(&mut reaper, start, 1).await, [(1, 43)]);
}

#[tokio::test(start_paused = true)]
async fn equal_elements_are_held_once() {
    let start = Instant::now();
    let (wheel, mut reaper) = IdleSet::new(secs(8));
    let added = [1, 2, 1, 1, 2].map(|id| wheel.touch(&id));
    assert_eq!(added, [Inserted, Inserted, Present, Present, Present]);
    assert_eq!(wheel.len(), 2);
    let mut out = expired(&mut reaper, start, 2).await;
    out.sort_unstable();
    assert_eq!(out, [(1, 8), (2, 8)]);
    drop(wheel);
    assert_eq!(reaper.reap().await, None);
}

#[tokio::test(start_paused = true)]
async fn what_was_removed_does_not_expire() {
    let start = Instant::now();
    let (wheel, mut reaper) = IdleSet::new(secs(8));
    for id in [1, 2, 3] {
        wheel.touch(&id);
    }
    assert_eq!(wheel.remove(&2), Some(2));
    assert_eq!(wheel.remove(&2), None);
    sleep(secs(1)).await;
    wheel.touch(&3);
    wheel.remove(&3);
    wheel.touch(&3);
    assert_eq!(expired(&mut reaper, start, 2).await, [(1, 8), (3, 9)]);
    assert!(wheel.is_empty());
}

/// The loop around the stream corresponds to the listener of such a wheel.
#[tokio::test(start_paused = true)]
async fn each_expiry_is_told_once() {
    let (wheel, mut reaper) = IdleSet::new(secs(8));
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = tokio::spawn({
        let told = told.clone();
        async move {
            while let Some(id) = reaper.next().await {
                told.lock().unwrap().push(id);
            }
        }
    });
    for id in 0..100_u32 {
        wheel.touch(&id);
        sleep(ms(100)).await;
    }
    drop(wheel);
    listener.await.unwrap();
    let told = told.lock().unwrap();
    assert!(told.iter().copied().eq(0..100), "{told:?}");
}

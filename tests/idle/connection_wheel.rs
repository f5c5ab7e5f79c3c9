//! The wheel of buckets that network servers use for idle connections: a ring of buckets, of which
//! the server empties one every second.

use super::*;

/// A connection that is added again waits anew and is held once. A removed connection does not
/// expire. The loop around the stream corresponds to the listener of such a wheel, which learns of
/// each expiry once.
#[tokio::test(start_paused = true)]
async fn connections_are_added_removed_and_told() {
    let start = Instant::now();
    let (wheel, mut reaper) = IdleSet::new(secs(8));
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = tokio::spawn({
        let told = told.clone();
        async move {
            while let Some(id) = reaper.next().await {
                let at = start.elapsed().as_secs();
                told.lock().unwrap().push((id, at));
            }
        }
    });
    let added = [1, 2, 1, 3].map(|id| wheel.touch(&id));
    assert_eq!(added, [Inserted, Inserted, Present, Inserted]);
    assert_eq!(wheel.len(), 3);
    for _ in 0..5 {
        sleep(secs(7)).await;
        assert_eq!(wheel.touch(&1), Present);
        wheel.remove(&3);
    }
    drop(wheel);
    listener.await.unwrap();
    assert_eq!(*told.lock().unwrap(), [(2, 8), (1, 43)]);
}

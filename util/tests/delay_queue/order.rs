//! The times and the order in which elements are returned.

use super::*;

const YEAR: Duration = secs(365 * 86_400);

/// Returns all elements that have expired.
async fn due<T>(queue: &mut DelayQueue<T>) -> Vec<T> {
    poll_fn(|cx| {
        let mut due = Vec::new();
        while let Poll::Ready(Some(expired)) = queue.poll_expired(cx) {
            due.push(expired.into_inner());
        }
        Poll::Ready(due)
    })
    .await
}

/// The default timer has ticks of 1/64 ms.
#[tokio::test(start_paused = true)]
async fn order_within_a_millisecond() {
    let mut queue = DelayQueue::with_timer(&Timer::current());
    for n in [50, 3, 64, 9, 33, 1, 2, 63] {
        queue.insert(n, Duration::from_nanos(15_625 * n));
    }
    tokio::time::sleep(ms(1)).await;
    assert_eq!(due(&mut queue).await, [1, 2, 3, 9, 33, 50, 63, 64]);
}

#[tokio::test(start_paused = true)]
async fn what_was_due_when_it_was_inserted_comes_out_first() {
    let mut queue = DelayQueue::new();
    queue.insert("waits", ms(500));
    tokio::time::sleep(ms(100)).await;
    assert!(due(&mut queue).await.is_empty());
    let now = Instant::now();
    queue.insert_at("at 200", now + ms(100));
    queue.insert_at("at 100", now);
    tokio::time::sleep(ms(500)).await;
    assert_eq!(due(&mut queue).await, ["at 100", "at 200", "waits"]);
}

/// Elements whose deadline had passed at their insertion have no certain order. `peek` and the next poll agree
/// on it.
#[tokio::test(start_paused = true)]
async fn peek_names_what_a_poll_returns_of_what_has_passed() {
    let mut queue = DelayQueue::new();
    queue.insert(0, ms(100));
    assert_eq!(queue.next().await.unwrap().into_inner(), 0);
    let now = Instant::now();
    for (n, millis) in [(1, 50), (2, 70), (3, 10), (4, 0), (5, 60)] {
        queue.insert_at(n, now - ms(millis));
    }
    while let Some(first) = queue.peek() {
        assert_eq!(queue.next().await.unwrap().key(), first);
    }
}

/// The other expired elements are in a slot of a coarser level than the element that is inserted now.
#[tokio::test(start_paused = true)]
async fn peek_names_what_a_poll_returns_next() {
    let mut queue = DelayQueue::new();
    for n in 0..3 {
        queue.insert(n, ms(64));
    }
    queue.next().await.unwrap();
    queue.insert(3, Duration::ZERO);
    queue.insert(4, ms(1));
    while let Some(first) = queue.peek() {
        assert_eq!(queue.next().await.unwrap().key(), first);
    }
}

/// The paused clock is between two milliseconds when the queue is created and filled.
#[tokio::test(start_paused = true)]
async fn the_first_millisecond_that_is_not_early() {
    tokio::time::advance(Duration::from_micros(500)).await;
    let mut queue = DelayQueue::with_timer(&Timer::current());
    tokio::time::advance(Duration::from_micros(333)).await;
    for micros in [1_200_u64, 600, 100, 1_000, 63_500, 64_250, 1, 0] {
        let deadline = Instant::now() + Duration::from_micros(micros);
        queue.insert_at(micros, deadline);
        let expired = queue.next().await.unwrap();
        assert!(expired.deadline() >= deadline);
        assert!(expired.deadline() < deadline + Duration::from_nanos(15_625));
        let now = Instant::now();
        assert!(now >= deadline, "early by {:?}", deadline - now);
        // tokio's timer rounds up to a millisecond, and a paused clock moves by whole milliseconds.
        let late = now - deadline;
        assert!(late < ms(2), "late by {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn far_deadlines_saturate() {
    let start = Instant::now();
    let mut queue = DelayQueue::new();
    let never = queue.insert("never", Duration::MAX);
    let key = queue.insert("later never", ms(1));
    queue.reset(&key, Duration::MAX);
    queue.insert("in a century", 100 * YEAR);
    assert!(queue.deadline(&never) > start + 1_000 * YEAR);
    assert!(queue.deadline(&key) > start + 1_000 * YEAR);

    let expired = queue.next().await.unwrap();
    assert_eq!(expired.into_inner(), "in a century");
    assert!(start.elapsed() >= 100 * YEAR);
    // A paused clock does not advance to the last instant.
    let turn = tokio::time::timeout(YEAR, queue.next()).await;
    assert!(turn.is_err());
    queue.reset(&key, ms(5));
    assert_eq!(queue.next().await.unwrap().key(), key);
    assert_eq!(queue.remove(&never).into_inner(), "never");
}

/// On the real clock, several threads fill and change a queue while a task waits for it.
#[test]
fn never_lost_among_threads() {
    const THREADS: usize = 4;
    const EACH: usize = 500;
    does_not_hang(|| {
        let queue = Arc::new(Mutex::new(DelayQueue::new()));
        let fill = |thread: usize| {
            let queue = queue.clone();
            move || {
                for n in 0..EACH {
                    let delay = Duration::from_micros((n * 7_919 % 4_000) as u64);
                    let key = queue.lock().unwrap().insert((thread, n), delay);
                    if n % 3 == 0 {
                        let again = Duration::from_micros((n * 104_729 % 4_000) as u64);
                        let _came_out = queue.lock().unwrap().try_reset(&key, again);
                    }
                    if n % 50 == 0 {
                        queue.lock().unwrap().compact();
                        std::thread::sleep(ms(1));
                    }
                }
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|n| std::thread::spawn(fill(n))).collect();
        let runtime = multi_thread(2);
        let mut left = THREADS * EACH;
        let queue = queue.clone();
        let waits = runtime.spawn(poll_fn(move |cx| {
            while let Poll::Ready(Some(_)) = queue.lock().unwrap().poll_expired(cx) {
                left -= 1;
            }
            match left {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
        runtime.block_on(waits).unwrap();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

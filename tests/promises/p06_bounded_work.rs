//! "**Bounded work under a lock and per driver poll.** A million timers due in one slot, or
//! cascading out of one slot, must not hold … a worker thread longer than about 1 ms: work in
//! chunks, then give way."

use super::*;

/// The steps of a turn, which take 0.8 ms when each of them misses the caches. Wakers of one task
/// in a row count as one wake.
const MOST_AT_ONCE: usize = 4_096;

/// Lets the other tasks have their turns, and no more than that: `yield_now` would wait for
/// the runtime to look at its I/O in between.
async fn turn() {
    let mut yielded = false;
    poll_fn(|cx| match std::mem::replace(&mut yielded, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Lets the driver alone drain what is due, while another task counts: how many wakes there
/// were before each of its turns.
async fn wakes_between_turns(wakes: Arc<Wakes>, all: usize) -> Vec<usize> {
    let watch = async move {
        let mut turns = Vec::new();
        let mut before = wakes.count();
        while before < all {
            turn().await;
            let now = wakes.count();
            turns.push(now - before);
            before = now;
            assert!(turns.len() < 10_000_000, "never drained");
        }
        turns
    };
    tokio::spawn(watch).await.unwrap()
}

#[test]
fn a_million_due_in_one_slot_leave_others_their_turns() {
    const MANY: usize = 1_000_000;
    paused().block_on(async {
        let (wakes, waker) = Wakes::new();
        let deadline = Instant::now() + ms(100);
        let mut sleeps: Vec<_> = (0..MANY).map(|_| sleep_until(deadline)).collect();
        for sleep in &mut sleeps {
            assert_pending!(poll(sleep, &waker));
        }
        settle().await;
        // tokio's: the driver is to do the work.
        tokio::time::advance(ms(100)).await;
        let turns = wakes_between_turns(wakes, MANY).await;
        let most = *turns.iter().max().unwrap();
        assert!(most <= MOST_AT_ONCE, "{most} were woken in one go");
        assert!(sleeps.iter().all(Sleep::is_elapsed));
    });
}

/// A turn wakes few enough tasks that they fit a worker's own queue.
#[test]
fn a_turn_wakes_few_tasks() {
    const MANY: usize = 10_000;
    paused().block_on(async {
        let deadline = Instant::now() + ms(100);
        let woken = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..MANY)
            .map(|_| {
                let woken = woken.clone();
                let sleep = sleep_until(deadline);
                tokio::spawn(async move {
                    sleep.await;
                    woken.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        settle().await;
        tokio::time::advance(ms(100)).await;
        let (mut before, mut most) = (0, 0);
        while before < MANY {
            turn().await;
            let now = woken.load(Ordering::Relaxed);
            most = most.max(now - before);
            before = now;
        }
        assert!(most <= 160, "{most} were woken in one go");
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// All are in one slot of a coarse level, and none is due when that slot is.
#[test]
fn cascading_out_of_one_slot_leaves_others_their_turns() {
    const MANY: usize = 200_000;
    paused().block_on(async {
        Timer::builder().tick(ms(1)).install().unwrap();
        let (wakes, waker) = Wakes::new();
        let start = Instant::now();
        let mut sleeps: Vec<_> = (0..MANY)
            .map(|n| sleep_until(start + ms(4_096 + 64 + n as u64 % 4_000)))
            .collect();
        for sleep in &mut sleeps {
            assert_pending!(poll(sleep, &waker));
        }
        settle().await;
        tokio::time::advance(ms(4_096 + 64)).await;
        let turns = wakes_between_turns(wakes, 1).await.len();
        assert!(turns >= MANY / MOST_AT_ONCE, "only {turns} turns");
    });
}

/// A few in each of many shards are many as well.
#[test]
fn many_shards_leave_others_their_turns() {
    const SHARDS: usize = 1_000;
    const EACH: usize = 50;
    does_not_hang(|| {
        paused().block_on(async {
            let timer = Timer::builder().shards(SHARDS).build().unwrap();
            let (wakes, waker) = Wakes::new();
            let deadline = Instant::now() + secs(3_600);
            let mut sleeps = Vec::new();
            for _ in 0..SHARDS {
                // Each thread has a shard of its own.
                let (timer, waker) = (timer.clone(), waker.clone());
                let thread = thread::spawn(move || {
                    let mut sleeps: Vec<_> =
                        (0..EACH).map(|_| timer.sleep_until(deadline)).collect();
                    for sleep in &mut sleeps {
                        assert_pending!(poll(sleep, &waker));
                    }
                    sleeps
                });
                sleeps.push(thread.join().unwrap());
            }
            settle().await;
            tokio::time::advance(secs(3_600)).await;
            let turns = wakes_between_turns(wakes, SHARDS * EACH).await;
            let most = *turns.iter().max().unwrap();
            assert!(most <= MOST_AT_ONCE, "{most} were woken in one go");
        });
    });
}

//! Promise 6, bounded work: the driver does not hold a worker thread longer than about 1 ms at a time.

use super::*;

/// The maximum number of steps in a turn on a paused clock.
const MOST_AT_ONCE: usize = 16_384;

/// Lets each other task have one turn. `yield_now` would also wait until the runtime has polled its I/O.
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

/// Returns the number of wakes between two turns of a task, until there were `all`. Only the driver runs beside it.
async fn wakes_between_turns(wakes: Arc<Wakes>, all: usize) -> Vec<usize> {
    let watch = async move {
        let mut turns = Vec::new();
        let mut before = wakes.count();
        while before < all {
            turn().await;
            let now = wakes.count();
            turns.push(now - before);
            before = now;
            assert!(turns.len() < 10_000_000, "the due sleeps never all fire");
        }
        turns
    };
    tokio::spawn(watch).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_storm_due_in_one_slot_leave_others_their_turns() {
    const MANY: usize = 100_000;
    let (wakes, waker) = Wakes::new();
    let deadline = Instant::now() + ms(100);
    let sleeps = (0..MANY).map(|_| registered(sleep_until(deadline), &waker));
    let sleeps: Vec<_> = sleeps.collect();
    settle().await;
    // This calls tokio's `advance`, because the driver must do the work.
    tokio::time::advance(ms(100)).await;
    let turns = wakes_between_turns(wakes, MANY).await;
    let most = *turns.iter().max().unwrap();
    assert!(most <= MOST_AT_ONCE, "one turn made {most} wakes");
    assert!(sleeps.iter().all(Sleep::is_elapsed));
}

/// All entries are in one slot of a coarse level. None is due when the wheel reaches that slot.
#[tokio::test(start_paused = true)]
async fn cascading_out_of_one_slot_leaves_others_their_turns() {
    const MANY: usize = 100_000;
    Timer::builder().tick(ms(1)).install().unwrap();
    let (wakes, waker) = Wakes::new();
    let start = Instant::now();
    let deadlines = (0..MANY).map(|n| start + ms(4_096 + 64 + n as u64 % 4_000));
    let sleeps = deadlines.map(|at| registered(sleep_until(at), &waker));
    let _sleeps: Vec<_> = sleeps.collect();
    settle().await;
    tokio::time::advance(ms(4_096 + 64)).await;
    let turns = wakes_between_turns(wakes, 1).await.len();
    assert!(turns >= MANY / MOST_AT_ONCE, "only {turns} turns");
}

/// Each of many shards has a few due entries.
#[test]
fn many_shards_leave_others_their_turns() {
    const SHARDS: usize = 500;
    const EACH: usize = 50;
    does_not_hang(|| {
        paused().block_on(async {
            let timer = Timer::builder().shards(SHARDS).build().unwrap();
            let (wakes, waker) = Wakes::new();
            let deadline = Instant::now() + secs(3_600);
            let shards = (0..SHARDS).map(|_| elsewhere(&timer, &[deadline; EACH], &waker));
            let _sleeps: Vec<_> = shards.collect();
            settle().await;
            tokio::time::advance(secs(3_600)).await;
            let turns = wakes_between_turns(wakes, SHARDS * EACH).await;
            let most = *turns.iter().max().unwrap();
            assert!(most <= MOST_AT_ONCE, "one turn made {most} wakes");
        });
    });
}

/// Returns the largest depth of the shared queue while a crowd is woken that is due at once.
fn depth_beside(crowd: usize, workers: usize) -> usize {
    let runtime = multi_thread(workers);
    let due = Instant::now() + ms(200);
    let tasks = (0..crowd).map(|_| {
        runtime.spawn(async move {
            sleep_until(due).await;
            Handle::current().metrics().global_queue_depth()
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let depths = tasks
        .into_iter()
        .map(|task| runtime.block_on(task).unwrap());
    depths.max().unwrap()
}

/// A crowd does not bury the tasks that sockets wake, because it leaves room in the queue that all workers share. While other
/// processes keep the processors busy, the runtime may look busy, and then a crowd wakes at once.
#[test]
fn a_crowd_leaves_room_in_the_shared_queue() {
    does_not_hang(|| {
        for workers in [1, 2] {
            let depths = [(); 4].map(|()| depth_beside(20_000, workers));
            let least = depths.into_iter().min().unwrap();
            assert!(least < 1_000, "{depths:?} tasks, {workers} workers");
        }
    });
}

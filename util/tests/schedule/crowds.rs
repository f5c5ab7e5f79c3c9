//! Crowds of tasks with one deadline.

use super::*;

/// Returns the largest depth of the shared queue while a crowd runs that is due at once.
fn depth_beside(crowd: usize, workers: usize) -> usize {
    let runtime = multi_thread(workers);
    let (runs, most) = (Count::default(), Arc::new(AtomicUsize::new(0)));
    let scheduler = runtime.block_on(async { Scheduler::new() });
    let due = Instant::now() + ms(50);
    for _ in 0..crowd {
        let (runs, most) = (runs.clone(), most.clone());
        let run = async move {
            runs.add();
            let depth = Handle::current().metrics().global_queue_depth();
            most.fetch_max(depth, Ordering::Relaxed);
        };
        drop(scheduler.schedule_at(due, run).unwrap());
    }
    wait_until(|| runs.get() == crowd);
    most.load(Ordering::Relaxed)
}

/// A crowd does not bury the tasks that sockets wake, because it leaves room in the queue that all workers share. While other
/// processes keep the processors busy, the runtime may look busy, and then a crowd starts at once.
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

/// Others keep the worker and the shared queue busy for as long as the crowd waits. So the crowd must not wait for room.
#[test]
fn a_crowd_starts_beside_tasks_that_fill_the_queue() {
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let scheduler = runtime.block_on(async { Scheduler::new() });
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..1_000 {
            let over = over.clone();
            runtime.spawn(async move {
                // `yield_now` would put the task on a list of its worker's, and not into a queue.
                std::future::poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    match over.load(Ordering::Relaxed) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
            });
        }
        let runs = Count::default();
        for _ in 0..20_000 {
            let runs = runs.clone();
            let run = async move { runs.add() };
            drop(scheduler.schedule(ms(50), run).unwrap());
        }
        wait_until(|| runs.get() == 20_000);
        over.store(true, Ordering::Relaxed);
    });
}

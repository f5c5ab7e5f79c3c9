//! A task that blocks its worker.

use super::*;

/// The blocked worker has scheduled the task that is due next. The others still run on the other worker. A driver task would
/// have been woken in the queue of the blocked worker, and then half of the tasks would be more than 140 ms late.
#[test]
fn a_worker_that_has_something_due_and_blocks_makes_no_other_timer_late() {
    const BLOCK: Duration = ms(300);
    let lateness = does_not_hang(|| {
        let runtime = multi_thread(2);
        runtime.block_on(runtime.spawn(async {
            let scheduler = Scheduler::new();
            let begin = Instant::now() + ms(40);
            let mut tasks = Vec::new();
            for n in 0..250 {
                let due = begin + ms(n);
                let run = async move { due.elapsed() };
                tasks.push(scheduler.schedule_at(due, run).unwrap());
            }
            sleep(ms(5)).await;
            tokio::spawn(async move {
                drop(scheduler.schedule(ms(1), async {}));
                thread::sleep(BLOCK);
            });
            let mut lateness = Vec::new();
            for task in tasks {
                lateness.push(output(task).await);
            }
            lateness.sort();
            lateness
        }))
    });
    let median = lateness.unwrap()[125];
    assert!(median < BLOCK / 4, "{median:?}");
}

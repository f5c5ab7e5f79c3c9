//! A task that blocks its worker.

use super::*;

/// The blocked worker has a task that is due soon. The others still run on the other worker. On the scheduler's own driver,
/// the driver was woken in the blocked worker's queue, and the median was 167 ms late.
#[test]
fn a_worker_that_has_something_due_and_blocks_makes_no_other_timer_late() {
    const BLOCK: Duration = ms(300);
    let lateness = does_not_hang(|| {
        let runtime = multi_thread(2);
        runtime.block_on(runtime.spawn(async {
            let scheduler = Scheduler::new();
            let begin = Instant::now() + ms(20);
            let mut tasks = Vec::new();
            for n in 0..250 {
                let due = begin + ms(n);
                let run = async move { due.elapsed() };
                tasks.push(scheduler.schedule_at(due, run).unwrap());
            }
            let blocks = scheduler.clone();
            let blocks = scheduler.schedule_at(begin, async move {
                drop(blocks.schedule(ms(1), async {}));
                thread::sleep(BLOCK);
            });
            drop(blocks.unwrap());
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

//! What a scheduler keeps of a runtime that has ended.

use std::fs;

use tokio_wheel_util::schedule::Scheduler;

/// A scheduler that is kept must not keep the descriptors of its runtime.
#[test]
fn a_scheduler_keeps_no_descriptor_of_an_ended_runtime() {
    let _alone = super::alone();
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let kept: Vec<_> = (0..10)
        .map(|_| {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
            runtime.block_on(async {
                let scheduler = Scheduler::new();
                let task = scheduler.schedule(std::time::Duration::ZERO, async {});
                task.unwrap().await.unwrap();
                scheduler
            })
        })
        .collect();
    let with_handles = open();
    drop(kept);
    assert!(with_handles < open() + 10, "{with_handles} descriptors");
}

//! The thread that watches the workers of all runtimes of a process.

use std::task::Waker;
#[cfg(target_os = "linux")]
use std::{fs, thread};

use tokio_wheel::{Timer, sleep};

use super::bytes_of;
use crate::support::{does_not_hang, ms, multi_thread, registered, secs, until_a_block_counts};

/// Returns how often each watch of this process has switched to another thread.
#[cfg(target_os = "linux")]
fn switches() -> Vec<String> {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let statuses = threads.flat_map(|it| fs::read_to_string(it.unwrap().path().join("status")));
    // The system cuts the name.
    let watches = statuses.filter(|status| status.starts_with("Name:\ttokio-wheel-wa"));
    let line = |status: String| {
        let mut lines = status.lines();
        let switches = lines.find(|line| line.starts_with("voluntary_ctxt_switches"));
        switches.unwrap().to_owned()
    };
    watches.map(line).collect()
}

#[test]
fn runtimes_that_come_and_go_leave_nothing_with_the_watch() {
    let _alone = super::alone();
    let come_and_go = |times| {
        for _ in 0..times {
            let metrics = multi_thread(2).block_on(async { Timer::current().metrics() });
            assert!(metrics.is_watched());
        }
    };
    come_and_go(50);
    let ((), bytes) = bytes_of(|| come_and_go(1_000));
    assert!(bytes < 50_000, "1,000 runtimes leave {bytes} bytes");
    #[cfg(target_os = "linux")]
    assert_eq!(switches().len(), 1);
}

/// Promise 5: nothing wakes the watch of a process in which nothing moves. Otherwise the test hangs.
#[test]
fn the_watch_of_an_idle_process_has_no_wake_ups() {
    let _alone = super::alone();
    does_not_hang(|| {
        let runtime = multi_thread(2);
        let _entered = runtime.enter();
        let sleeps = (0..10_000).map(|n| registered(sleep(secs(1_800 + n)), Waker::noop()));
        let _sleeps: Vec<_> = sleeps.collect();
        assert!(Timer::current().metrics().is_watched());
        #[cfg(target_os = "linux")]
        loop {
            let before = switches();
            thread::sleep(ms(500));
            if switches() == before {
                break;
            }
        }
        // It wakes when somebody uses the timer.
        runtime.block_on(until_a_block_counts());
    });
}

//! A forked process can sleep, although threads of its parent used timers while the parent forked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::{
    errno::Errno,
    libc,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, fork},
};
use tokio::runtime::Builder;
use tokio_wheel::{Instant, Timer, sleep};

use crate::support::{current_thread, ms, multi_thread, secs, until_a_block_counts};

const CHILDREN: usize = 500;
/// The number of children that live at the same time.
const AT_ONCE: usize = 20;

/// Forks a child that calls `live`, and ends.
fn fork_to(live: fn()) -> Pid {
    // SAFETY: the child is a copy of this thread alone. It allocates, which the libraries of all systems allow after a
    // fork. It takes no lock of the test's other threads, and returns to none of their code.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            live();
            // SAFETY: the function only ends the process. `std::process::exit` would run code that other threads of
            // the parent may have been running.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Waits for the child, and returns whether it has ended by itself within `end`.
fn has_ended(child: Pid, end: Instant) -> bool {
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if Instant::now() < end => thread::sleep(ms(1)),
            Ok(WaitStatus::StillAlive) => {
                kill(child, Signal::SIGKILL).unwrap();
                waitpid(child, None).unwrap();
                return false;
            }
            Ok(status) => return status == WaitStatus::Exited(child, 0),
            Err(Errno::EINTR) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_child_sleeps_although_its_parent_starts_runtimes() {
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let _alone = super::alone();
    // The thread that forks has used a timer too.
    current_thread().block_on(sleep(ms(1)));
    let has_forked = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&has_forked);
        for _ in 0..4 {
            scope.spawn(|| {
                while !has_forked.load(Ordering::Relaxed) {
                    // Without I/O, a runtime lives so briefly that the thread often uses the registry of timers.
                    let runtime = Builder::new_current_thread().enable_time().build();
                    runtime.unwrap().block_on(async { drop(Timer::current()) });
                }
            });
        }
        let mut hung = 0;
        let end = Instant::now() + secs(120);
        for _ in 0..CHILDREN / AT_ONCE {
            let children: Vec<_> = (0..AT_ONCE)
                .map(|_| fork_to(|| current_thread().block_on(sleep(ms(1)))))
                .collect();
            let has_hung = |child: &&Pid| !has_ended(**child, end);
            hung += children.iter().filter(has_hung).count();
        }
        assert_eq!(hung, 0, "of {CHILDREN} children");
    });
}

/// Returns when the watch has seen a task that blocks.
fn be_watched() {
    multi_thread(2).block_on(until_a_block_counts());
}

#[test]
fn a_child_starts_a_watch_of_its_own() {
    let _alone = super::alone();
    be_watched();
    let child = fork_to(be_watched);
    assert!(has_ended(child, Instant::now() + secs(120)));
}

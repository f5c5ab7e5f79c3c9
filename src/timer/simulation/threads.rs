//! Threads whose shards are known. A wait for a thread ends if the program makes no progress.
//!
//! A thread that is not a worker gets a number when it first uses a timer. The number determines the shard of the
//! thread. This module chooses threads by their number. So a program always runs on the same shards, even if
//! other tests start threads.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook},
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use crate::{driver::shared::thread_number, ground::unwind};

/// Every number of shards in a program divides this constant. A thread's number modulo this constant determines
/// its shard in all these timers.
const RESIDUES: usize = 12;

/// The number of looks without progress after which a wait for a thread ends: 30 s.
///
/// A maximum for the whole wait depends on the load of the machine. While ten other processes ran on two cores, a
/// maximum of 10 s was too short for a program of a few seconds. A single act or poll takes microseconds, even in
/// a program that takes minutes.
pub(super) const PATIENCE: u32 = 300;

/// The time between two looks at the progress of a program.
const LOOK: Duration = Duration::from_millis(100);

/// A part of the message with which a poll panics after the end of its timer.
pub(super) const AFTER_THE_END: &str = "after its timer has shut down";

/// The number of acts, polls and polls of the driver in one program.
pub(super) type Progress = Arc<AtomicU64>;

thread_local! {
    /// Whether the thread belongs to a [`Helper`].
    static IS_HELPER: Cell<bool> = const { Cell::new(false) };
}

/// Stops programs from printing the panics that they expect.
///
/// A program may poll a storm thousands of times after the end of the timer. With `RUST_BACKTRACE=1`, each panic
/// would cost 2 ms and 100 KiB of output.
fn hide_expected_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |info| {
            let message = unwind::message(info.payload()).unwrap_or_default();
            if !(IS_HELPER.get() && message.contains(AFTER_THE_END)) {
                print(info);
            }
        }));
    });
}

type Job = Box<dyn FnOnce() + Send>;

static IDLE: Mutex<Vec<Helper>> = Mutex::new(Vec::new());

/// A thread that runs jobs, one after the other.
pub(super) struct Helper {
    residue: usize,
    jobs: Sender<Job>,
}

impl Helper {
    /// Returns an idle thread. The thread belongs to the shard with the index `shard`, in every timer that has
    /// such a shard.
    pub(super) fn of(shard: usize) -> Self {
        let mut idle = IDLE.lock().unwrap();
        loop {
            if let Some(found) = idle.iter().position(|helper| helper.residue == shard) {
                return idle.swap_remove(found);
            }
            // A thread that no program needs ends. Each program that fails loses its threads.
            idle.extend(Some(Self::start()).filter(|helper| helper.residue < 4));
        }
    }

    fn start() -> Self {
        hide_expected_panics();
        let (jobs, to_do) = channel::<Job>();
        let (tell, told) = channel();
        thread::spawn(move || {
            IS_HELPER.set(true);
            tell.send(thread_number() % RESIDUES).unwrap();
            for job in to_do {
                job();
            }
        });
        Self {
            residue: told.recv().unwrap(),
            jobs,
        }
    }

    /// Makes the thread available to other programs.
    pub(super) fn release(self) {
        IDLE.lock().unwrap().push(self);
    }

    /// Runs `job` on the thread, and returns its result. If `job` panics, resumes the panic. Returns `None` if
    /// `progress` has not changed for `patience` looks.
    pub(super) fn run<R: Send + 'static>(
        &self,
        patience: u32,
        progress: &Progress,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let (tell, told) = channel();
        let job = move || drop(tell.send(catch_unwind(AssertUnwindSafe(job))));
        self.jobs.send(Box::new(job)).unwrap();
        let (mut steps, mut looks) = (progress.load(SeqCst), 0);
        while looks < patience {
            match told.recv_timeout(LOOK) {
                Ok(result) => return Some(result.unwrap_or_else(|payload| resume_unwind(payload))),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if progress.load(SeqCst) == steps => looks += 1,
                Err(RecvTimeoutError::Timeout) => (steps, looks) = (progress.load(SeqCst), 0),
            }
        }
        None
    }
}

#[test]
fn a_wait_ends_without_progress_and_not_after_a_time() {
    let progress = Progress::default();
    let slow = {
        let progress = progress.clone();
        move || {
            for _ in 0..20 {
                thread::sleep(LOOK);
                progress.fetch_add(1, SeqCst);
            }
        }
    };
    assert!(Helper::of(0).run(10, &progress, slow).is_some());
    let (hold, held) = channel::<()>();
    let stuck = Helper::of(0).run(10, &progress, move || held.recv().is_ok());
    assert!(stuck.is_none());
    drop(hold);
}

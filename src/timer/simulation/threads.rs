//! Threads whose shards are known, with a maximum time for each wait.
//!
//! A thread that is not a worker gets a number when it first uses a timer. The number determines
//! the shard of the thread. This module keeps threads sorted by their number. So a program always
//! runs on the same shards, even if other tests start threads.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use crate::ground::thread::number;

/// The pool keeps threads by their number modulo this constant. Every number of shards in a program
/// divides this constant.
const RESIDUES: usize = 12;

/// The maximum wait for a thread. A maximum of 10 s was too short. While ten other processes ran on
/// two cores, the test reported a program of a few seconds as hanging.
pub(super) const PATIENCE: Duration = Duration::from_secs(150);

type Job = Box<dyn FnOnce() + Send>;

static IDLE: Mutex<[Vec<Helper>; RESIDUES]> = Mutex::new([const { Vec::new() }; RESIDUES]);

/// A thread that runs jobs, one after the other.
pub(super) struct Helper {
    residue: usize,
    jobs: Sender<Job>,
}

/// The error of a thread that has not finished its job in time.
#[derive(Debug)]
pub(super) struct Stuck;

impl Helper {
    /// Returns an idle thread. The thread belongs to the shard with the index `shard`, in every
    /// timer that has such a shard.
    pub(super) fn of(shard: usize) -> Self {
        loop {
            if let Some(helper) = IDLE.lock().unwrap()[shard].pop() {
                return helper;
            }
            Self::start().release();
        }
    }

    fn start() -> Self {
        let (jobs, to_do) = channel::<Job>();
        let (tell, told) = channel();
        thread::spawn(move || {
            tell.send(number() % RESIDUES).unwrap();
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
        IDLE.lock().unwrap()[self.residue].push(self);
    }

    /// Runs `job` on the thread, and returns its result. If `job` panics, resumes the panic.
    /// Returns an error if `job` takes longer than `patience`.
    pub(super) fn run<R: Send + 'static>(
        &self,
        patience: Duration,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Stuck> {
        let (tell, told) = channel();
        let job = move || drop(tell.send(catch_unwind(AssertUnwindSafe(job))));
        self.jobs.send(Box::new(job)).unwrap();
        match told.recv_timeout(patience) {
            Ok(result) => Ok(result.unwrap_or_else(|payload| resume_unwind(payload))),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(Stuck),
        }
    }
}

//! Threads of which is known what shard they belong to, and that are waited for no longer than can
//! be.
//!
//! A thread that is no worker belongs to a shard by its number, which it is given when it first
//! comes to a timer. The threads here are kept by that number, so that a program always runs on the
//! same shards, whatever other tests run.

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

/// Each number of shards that a program has divides it.
const RESIDUES: usize = 12;

/// No thread needs as long as that, however busy the machine is: a program of seconds was taken for one
/// that hangs beside ten processes on two cores when this was 10 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(150);

type Job = Box<dyn FnOnce() + Send>;

static IDLE: Mutex<[Vec<Helper>; RESIDUES]> = Mutex::new([const { Vec::new() }; RESIDUES]);

/// A thread that does as it is told.
pub(super) struct Helper {
    residue: usize,
    jobs: Sender<Job>,
}

/// The thread has not done it in time.
#[derive(Debug)]
pub(super) struct Stuck;

impl Helper {
    /// An idle thread of the shard of that number, whatever the number of shards.
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

    /// For whoever comes next.
    pub(super) fn release(self) {
        IDLE.lock().unwrap()[self.residue].push(self);
    }

    /// Has the thread run `job`, which is to take less than `patience`, and goes on with its panic,
    /// if any.
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

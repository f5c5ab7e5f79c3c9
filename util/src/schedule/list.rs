//! The tasks of a scheduler that wait and run: a list for each worker.
//!
//! A list does not start its tasks, because their wakers do. It is there for the limit, for [`Scheduler::pending`], and for
//! a shutdown, which wakes what it finds in the lists.
//!
//! # Rules
//!
//! * A thread that schedules a task registers its sleep and adds it to the list under one hold of the list's lock. A waker
//!   that starts the task removes it from the list, so it waits for this lock and finds the task.
//! * A thread may lock a list while it holds the lock of an entry, and never the other way round.
//! * No user code runs under the lock. The waker in a list is the entry's own.
//!
//! * A list grows by a [chunk](super::places), which is allocated under its lock. No hold of the lock copies a list.
//!
//! [`Scheduler::pending`]: super::Scheduler::pending

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_wheel::{Sleep, Timer};

use super::{error::Refused, places::Places, unstarted::Unstarted};
use crate::ground::sync::{AtomicU64, Mutex, Ordering::Relaxed, lock};

/// What the lists of a scheduler share.
pub(super) struct Common {
    pub(super) timer: Timer,
    /// The runtime of the tasks. A scheduler that is kept must not keep a runtime that has ended, so a task of the runtime
    /// owns the handle.
    runtime: Weak<Handle>,
    /// Ends this task when it is dropped.
    _open: Mutex<oneshot::Sender<()>>,
    /// The limit on waiting tasks, and their number. A scheduler without a limit does not count, because all threads would
    /// write to the cache line of the number.
    limit: Option<(usize, AtomicU64)>,
    /// The tasks that a shutdown has woken, and will return.
    pub(super) unstarted: Mutex<Vec<Unstarted>>,
    /// Notified when a list has no running task any more.
    pub(super) idle: Notify,
}

impl Common {
    /// Returns the runtime, unless it or the timer has ended.
    pub(super) fn runtime(&self) -> Option<Arc<Handle>> {
        self.runtime.upgrade().filter(|_| !self.timer.is_shutdown())
    }

    pub(super) fn is_open(&self) -> bool {
        !self.timer.is_shutdown() && self.runtime.strong_count() > 0
    }

    /// Counts one more waiting task, unless it is a first run and the limit is reached.
    fn count(&self, is_first: bool) -> Result<(), Refused> {
        let Some((max, pending)) = &self.limit else {
            return Ok(());
        };
        let one_more = |pending| (!is_first || pending < *max as u64).then_some(pending + 1);
        let counted = pending.fetch_update(Relaxed, Relaxed, one_more);
        counted.map(drop).map_err(|_| Refused::Full(*max))
    }

    fn uncount(&self, tasks: usize) {
        if let Some((_, pending)) = &self.limit {
            pending.fetch_sub(tasks as u64, Relaxed);
        }
    }
}

/// A list, on cache lines of its own.
#[repr(align(128))]
pub(super) struct Shard {
    pub(super) common: Arc<Common>,
    next_id: AtomicU64,
    list: Mutex<List>,
}

struct List {
    /// Each waiting task: its waker, and the sleep that wakes it. `None` after a shutdown.
    waiting: Option<Places<(Waker, Sleep)>>,
    running: usize,
}

impl Shard {
    /// Creates the lists of a scheduler: one for each worker, and one for threads that are no workers.
    #[track_caller]
    pub(super) fn all(timer: Timer, max_pending: Option<usize>) -> Arc<[Arc<Self>]> {
        let runtime = Arc::new(Handle::current());
        let workers = runtime.metrics().num_workers() as u64;
        let (open, ended) = oneshot::channel();
        let common = Arc::new(Common {
            timer,
            runtime: Arc::downgrade(&runtime),
            _open: Mutex::new(open),
            limit: max_pending.map(|max| (max, AtomicU64::new(0))),
            unstarted: Mutex::default(),
            idle: Notify::new(),
        });
        tokio::spawn(async move {
            let _ended = ended.await;
            drop(runtime);
        });
        let shard = |number| {
            let waiting = Some(Places::default());
            Arc::new(Self {
                common: common.clone(),
                next_id: AtomicU64::new(number << 48),
                list: Mutex::new(List {
                    waiting,
                    running: 0,
                }),
            })
        };
        (0..=workers).map(shard).collect()
    }

    /// Returns a number that no other task of the scheduler has.
    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// Adds a task, whose sleep wakes `waker` at the deadline. Stores the place of the task in `index`. Returns whether the
    /// deadline has passed: the caller then wakes the task.
    pub(super) fn insert(
        &self,
        index: &AtomicU64,
        waker: Waker,
        (now, deadline): (Instant, Instant),
        is_first: bool,
    ) -> Result<bool, Refused> {
        let timer = &self.common.timer;
        self.common.count(is_first)?;
        let mut sleep = timer.sleep_until(deadline);
        let mut list = lock(&self.list);
        if let Some(waiting) = &mut list.waiting {
            let is_due = match deadline <= now {
                _ if !self.common.is_open() => None,
                true => Some(true),
                false => match sleep.try_poll_elapsed(&mut Context::from_waker(&waker)) {
                    Poll::Pending => Some(false),
                    Poll::Ready(reached) => reached.ok().map(|()| true),
                },
            };
            if let Some(is_due) = is_due {
                index.store(waiting.insert((waker, sleep)) as u64, Relaxed);
                return Ok(is_due);
            }
        }
        drop(list);
        self.common.uncount(1);
        Err(Refused::Shutdown)
    }

    /// Removes a task. If it `starts`, counts it as running, until a call of [`ran`](Self::ran). Returns `false` if the list
    /// is closed: the task is the shutdown's.
    pub(super) fn remove(&self, index: &AtomicU64, starts: bool) -> bool {
        let mut list = lock(&self.list);
        list.running += usize::from(starts);
        let Some(waiting) = &mut list.waiting else {
            return false;
        };
        let removed = waiting.remove(index.load(Relaxed) as usize);
        drop(list);
        drop(removed);
        self.common.uncount(1);
        true
    }

    /// Records that a task that was running does not run any more.
    pub(super) fn ran(&self) {
        let mut list = lock(&self.list);
        list.running -= 1;
        let is_idle = list.running == 0;
        drop(list);
        if is_idle {
            self.common.idle.notify_waiters();
        }
    }

    /// Returns the number of waiting tasks, or `None` if the list is closed, and the number of running tasks.
    pub(super) fn counts(&self) -> (Option<usize>, usize) {
        let list = lock(&self.list);
        (list.waiting.as_ref().map(Places::len), list.running)
    }

    /// Closes the list, and returns the waiting tasks.
    pub(super) fn close(&self) -> Places<(Waker, Sleep)> {
        let closed = lock(&self.list).waiting.take().unwrap_or_default();
        self.common.uncount(closed.len());
        closed
    }
}

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
//! [`Scheduler::pending`]: super::Scheduler::pending

use std::{
    mem,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
};

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_wheel::{Sleep, Timer};

use super::{error::Refused, places::Places, unstarted::Unstarted};
use crate::ground::sync::{AtomicU64, Mutex, Ordering::Relaxed, lock};

/// What the lists of a scheduler share.
pub(super) struct Common {
    timer: Timer,
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
    pub(super) fn new(timer: Timer, max_pending: Option<usize>) -> Arc<Self> {
        let runtime = Arc::new(Handle::current());
        let (open, ended) = oneshot::channel();
        let common = Self {
            timer,
            runtime: Arc::downgrade(&runtime),
            _open: Mutex::new(open),
            limit: max_pending.map(|max| (max, AtomicU64::new(0))),
            unstarted: Mutex::default(),
            idle: Notify::new(),
        };
        tokio::spawn(async move {
            let _ended = ended.await;
            drop(runtime);
        });
        Arc::new(common)
    }

    /// Returns whether neither the runtime nor the timer has ended.
    pub(super) fn is_open(&self) -> bool {
        !self.timer.is_shutdown() && self.runtime.strong_count() > 0
    }

    /// Returns the runtime, unless it or the timer has ended.
    pub(super) fn runtime(&self) -> Option<Arc<Handle>> {
        self.runtime.upgrade().filter(|_| self.is_open())
    }

    /// Counts one more waiting task, unless it is a first run and the limit is reached.
    fn count(&self, is_first: bool) -> Result<(), Refused> {
        let Some((max, pending)) = &self.limit else {
            return Ok(());
        };
        let one_more = |pending| (!is_first || pending < *max as u64).then_some(pending + 1);
        match pending.fetch_update(Relaxed, Relaxed, one_more) {
            Ok(_) => Ok(()),
            Err(_) => Err(Refused::Full(*max)),
        }
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

#[derive(Default)]
struct List {
    waiting: Places<Waiting>,
    running: usize,
    is_closed: bool,
}

/// A waiting task: its waker, and the sleep that wakes it.
type Waiting = (Waker, Sleep);

impl Shard {
    pub(super) fn new(common: Arc<Common>, number: usize) -> Arc<Self> {
        Arc::new(Self {
            common,
            next_id: AtomicU64::new((number as u64) << 48),
            list: Mutex::default(),
        })
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
        self.common.count(is_first)?;
        let mut sleep = self.common.timer.sleep_until(deadline);
        let mut list = lock(&self.list);
        let is_due = match deadline <= now {
            _ if list.is_closed => None,
            true => self.common.is_open().then_some(true),
            false => match sleep.try_poll_elapsed(&mut Context::from_waker(&waker)) {
                Poll::Pending => Some(false),
                Poll::Ready(reached) => reached.ok().map(|()| true),
            },
        };
        if is_due.is_some() {
            index.store(list.waiting.insert((waker, sleep)) as u64, Relaxed);
        } else {
            // The waker and the sleep are dropped without the lock.
            drop(list);
            self.common.uncount(1);
        }
        is_due.ok_or(Refused::Shutdown)
    }

    /// Removes a task. If it `starts`, counts it as running, until a call of [`ran`](Self::ran). Returns `None` if the list
    /// is closed: the task is the shutdown's.
    pub(super) fn remove(&self, index: &AtomicU64, starts: bool) -> Option<Waiting> {
        let mut list = lock(&self.list);
        list.running += usize::from(starts);
        if list.is_closed {
            return None;
        }
        let (removed, unused) = list.waiting.remove(index.load(Relaxed) as usize);
        drop(list);
        drop(unused);
        self.common.uncount(1);
        Some(removed)
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

    /// Returns the number of waiting tasks, the number of running tasks, and whether the list is closed.
    pub(super) fn counts(&self) -> (usize, usize, bool) {
        let list = lock(&self.list);
        (list.waiting.len(), list.running, list.is_closed)
    }

    /// Closes the list, and returns the waiting tasks.
    pub(super) fn close(&self) -> impl Iterator<Item = Waiting> {
        let mut list = lock(&self.list);
        list.is_closed = true;
        let waiting = mem::take(&mut list.waiting);
        drop(list);
        self.common.uncount(waiting.len());
        waiting.into_values()
    }
}

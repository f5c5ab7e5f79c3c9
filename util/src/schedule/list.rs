//! The waiting and running tasks of a scheduler: a list for each worker.
//!
//! A list does not start its tasks, because their wakers do. It is there for [`Scheduler::pending`] and for
//! a shutdown, which takes what it finds in the lists.
//!
//! # Rules
//!
//! * A thread may lock a list while it holds the lock of an entry, and never the other way round.
//! * No user code runs under the lock of a list. A caller keeps the entry that it adds or removes, so its drop runs later.
//! * No hold of the lock copies the tasks. A list that is full gets another slab, and a slab that is no longer needed is
//!   freed after the hold.
//! * A limit is exact: a thread counts a task before it adds the task to a list.
//!
//! [`Scheduler::pending`]: super::Scheduler::pending

use std::sync::{Arc, Weak};
use std::task::{Context, Wake};

use slab::Slab;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_wheel::{Sleep, Timer};

use super::handle::{Status, Task};
use crate::ground::sync::{AtomicU64, Mutex, Ordering, lock};

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

    /// Counts one more waiting task. Returns the limit if it is reached, unless the task has run before.
    fn count(&self, has_run: bool) -> Result<(), usize> {
        let Some((limit, waiting)) = &self.limit else {
            return Ok(());
        };
        let one_more = |waiting| (has_run || waiting < *limit as u64).then_some(waiting + 1);
        let counted = waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.map(drop).map_err(|_| *limit)
    }

    fn uncount(&self, tasks: usize) {
        if let Some((_, waiting)) = &self.limit {
            waiting.fetch_sub(tasks as u64, Ordering::Relaxed);
        }
    }
}

/// A list, on cache lines of its own.
#[repr(align(128))]
pub(super) struct Shard {
    pub(super) common: Arc<Common>,
    /// A number that no other task of the scheduler has.
    pub(super) next_id: AtomicU64,
    running: AtomicU64,
    /// The waiting tasks. `None` after a shutdown.
    waiting: Mutex<Option<Places>>,
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
            limit: max_pending.map(|limit| (limit, AtomicU64::new(0))),
            idle: Notify::new(),
        });
        // The tokio task drops the handle at its end.
        tokio::spawn(async move { (ended.await, runtime) });
        let shard = |number| {
            Arc::new(Self {
                common: common.clone(),
                next_id: AtomicU64::new(number << 48),
                running: AtomicU64::new(0),
                waiting: Mutex::new(Some(Places::default())),
            })
        };
        (0..=workers).map(shard).collect()
    }

    /// Adds a task that waits for the deadline in `status`, whose sleep wakes it then. Also returns whether the deadline has
    /// passed: the caller then wakes the task. The caller holds the lock for which the waker waits.
    ///
    /// If the list refuses the task, returns the limit, or `None` after a shutdown or if the task was canceled.
    pub(super) fn insert(
        self: &Arc<Self>,
        task: Arc<impl Task + Wake + 'static>,
        now: Instant,
        status: &Status,
    ) -> Result<(Place, bool), Option<usize>> {
        if status.is_cancelled || !self.common.is_open() {
            return Err(None);
        }
        let waker = task.clone().into();
        // The next run of a periodic task is always accepted.
        self.common.count(status.is_started)?;
        let added = (lock(&self.waiting).as_mut()).map(|waiting| waiting.insert(task));
        let Some(index) = added else {
            self.common.uncount(1);
            return Err(None);
        };
        let mut place = Place {
            sleep: self.common.timer.sleep_until(status.deadline),
            shard: self.clone(),
            index,
        };
        let mut cx = Context::from_waker(&waker);
        let is_due = status.deadline <= now || place.sleep.try_poll_elapsed(&mut cx).is_ready();
        // A timer that has ended in the meantime wakes the task, or is ready here. The wake then drops the work.
        Ok((place, is_due))
    }

    /// Returns the number of waiting tasks, or `None` after a shutdown.
    pub(super) fn pending(&self) -> Option<usize> {
        lock(&self.waiting).as_ref().map(Places::len)
    }

    pub(super) fn is_idle(&self) -> bool {
        // A write reads the last count. A mere load does so only after a `Notify`, of which the models know nothing.
        self.running.fetch_add(0, Ordering::AcqRel) == 0
    }

    /// Closes the list, and returns the waiting tasks.
    pub(super) fn close(&self) -> impl Iterator<Item = Arc<dyn Task>> + use<> {
        let closed = lock(&self.waiting).take().unwrap_or_default();
        self.common.uncount(closed.len());
        closed.0.into_iter().flatten().map(|(_, task)| task)
    }
}

/// Where a task waits: in the timer and in a list.
pub(super) struct Place {
    /// Wakes the task.
    sleep: Sleep,
    shard: Arc<Shard>,
    index: usize,
}

impl Place {
    /// Removes the task from the list, unless a shutdown has done so, and from the timer.
    pub(super) fn leave(self) -> Arc<Shard> {
        let removed = (lock(&self.shard.waiting).as_mut()).map(|it| it.remove(self.index));
        self.shard.common.uncount(removed.iter().len());
        self.shard
    }

    /// Removes the task, as [`leave`](Self::leave) does, and counts it as running.
    pub(super) fn start(self) -> Running {
        // A thread that no longer finds the task in the list finds this count.
        self.shard.running.fetch_add(1, Ordering::Relaxed);
        Running(self.leave())
    }
}

/// Counts as running in its list until it is dropped.
pub(super) struct Running(pub(super) Arc<Shard>);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.common.idle.notify_waiters();
        }
    }
}

/// The capacity of the first slab of a list.
const FIRST: usize = 256;

/// Tasks by their indices, in slabs: each has twice the capacity of the slab before it, and none grows.
#[derive(Default)]
struct Places(Vec<Tasks>);

type Tasks = Slab<Arc<dyn Task>>;

impl Places {
    fn len(&self) -> usize {
        self.0.iter().map(Slab::len).sum()
    }

    /// Returns the index of the first task of a slab.
    fn start(slab: usize) -> usize {
        (FIRST << slab) - FIRST
    }

    fn insert(&mut self, task: Arc<dyn Task>) -> usize {
        let has_room = |number: &usize| self.0[*number].len() < FIRST << number;
        let number = (0..self.0.len()).find(has_room).unwrap_or(self.0.len());
        if number == self.0.len() {
            self.0.push(Slab::with_capacity(FIRST << number));
        }
        Self::start(number) + self.0[number].insert(task)
    }

    /// Also returns the slabs that are no longer needed. One empty slab stays behind the last task, so a list that grows and
    /// shrinks by one does not allocate each time.
    fn remove(&mut self, index: usize) -> (Arc<dyn Task>, Option<Vec<Tasks>>) {
        let number = (index / FIRST + 1).ilog2() as usize;
        let task = self.0[number].remove(index - Self::start(number));
        let mut unused = None;
        if self.0.len() > 1 && self.0[number].is_empty() {
            let last = self.0.iter().rposition(|slab| !slab.is_empty());
            let needed = last.map_or(1, |last| last + 2);
            unused = (self.0.len() > needed).then(|| self.0.split_off(needed));
        }
        (task, unused)
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use std::any::Any;
    use std::task::{Poll, Waker};

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::schedule::Unstarted;

    struct Numbered(u64);

    impl Task for Numbered {
        fn cancel(self: Arc<Self>) -> bool {
            false
        }

        fn give_back(self: Arc<Self>) -> Option<Unstarted> {
            None
        }

        fn status(&self) -> Status {
            Status {
                id: self.0,
                deadline: Instant::now(),
                is_started: false,
                is_cancelled: false,
                is_finished: false,
            }
        }

        fn poll_result(&self, _: &Waker, _: &mut dyn Any) -> Poll<()> {
            Poll::Pending
        }

        fn detach(&self) {}
    }

    proptest! {
        /// Tasks keep their indices, no slab grows, a free place is used before a new slab, and the memory goes back.
        #[test]
        fn tasks_keep_their_indices(removals in vec(any::<usize>(), 0..2_000), more in 0..2_000_u64) {
            let mut list = Places::default();
            let insert = |list: &mut Places, id| (list.insert(Arc::new(Numbered(id))), id);
            let mut held: Vec<_> = (0..1_000).map(|id| insert(&mut list, id)).collect();
            for removed in removals {
                if !held.is_empty() {
                    let (index, id) = held.swap_remove(removed % held.len());
                    prop_assert_eq!(list.remove(index).0.status().id, id);
                }
            }
            let slabs = list.0.len();
            held.extend((1_000..1_000 + more).map(|id| insert(&mut list, id)));
            prop_assert_eq!(list.len(), held.len());
            prop_assert!(list.0.len() == slabs || held.len() > Places::start(list.0.len() - 1));
            for (number, slab) in list.0.iter().enumerate() {
                prop_assert_eq!(slab.capacity(), FIRST << number);
            }
            for (index, id) in held {
                prop_assert_eq!(list.remove(index).0.status().id, id);
            }
            // Whatever the order in which the tasks leave. A list of one task keeps its memory.
            prop_assert_eq!((list.len(), list.0.len()), (0, 1));
            let (first, _) = insert(&mut list, 0);
            list.remove(first);
            prop_assert_eq!(list.0.len(), 1);
        }
    }
}

//! The waiting and running tasks of a scheduler: a list for each worker.
//!
//! A list does not start its tasks, because their wakers do. It is there for the limit, for [`Scheduler::pending`], and for
//! a shutdown, which takes what it finds in the lists.
//!
//! # Rules
//!
//! * A thread may lock a list while it holds the lock of an entry, and never the other way round.
//! * No user code runs under the lock of a list. A caller keeps the entry that it adds or removes, so its drop runs later.
//! * No hold of the lock copies more than a chunk, or the list of chunks. A list grows by chunks, and an empty chunk gives its memory back if
//!   another chunk has room.
//!
//! [`Scheduler::pending`]: super::Scheduler::pending

use std::mem;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake};

use slab::Slab;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_wheel::{Sleep, Timer};

use super::{error::Refused, task::Task};
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
    /// The waiting tasks. `None` after a shutdown.
    waiting: Option<Places>,
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
            idle: Notify::new(),
        });
        tokio::spawn(async move {
            let _ended = ended.await;
            drop(runtime);
        });
        let shard = |number| {
            Arc::new(Self {
                common: common.clone(),
                next_id: AtomicU64::new(number << 48),
                list: Mutex::new(List {
                    waiting: Some(Places::default()),
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

    /// Adds a task, whose sleep wakes it at the deadline. Also returns whether the deadline has passed: the caller then wakes
    /// the task. The caller holds the lock for which the waker waits.
    pub(super) fn insert(
        self: &Arc<Self>,
        task: Arc<impl Task + Wake + 'static>,
        (now, deadline): (Instant, Instant),
        is_first: bool,
    ) -> Result<(Place, bool), Refused> {
        if !self.common.is_open() {
            return Err(Refused::Shutdown);
        }
        self.common.count(is_first)?;
        let mut sleep = self.common.timer.sleep_until(deadline);
        let waker = task.clone().into();
        let is_due = match deadline <= now {
            true => Some(true),
            false => match sleep.try_poll_elapsed(&mut Context::from_waker(&waker)) {
                Poll::Pending => Some(false),
                Poll::Ready(reached) => reached.ok().map(|()| true),
            },
        };
        let inserted = is_due.and_then(|_| Some(lock(&self.list).waiting.as_mut()?.insert(task)));
        let (Some(is_due), Some(index)) = (is_due, inserted) else {
            self.common.uncount(1);
            return Err(Refused::Shutdown);
        };
        let shard = self.clone();
        Ok((
            Place {
                sleep,
                shard,
                index,
            },
            is_due,
        ))
    }

    /// Returns the number of waiting tasks, or `None` after a shutdown, and the number of running tasks.
    pub(super) fn counts(&self) -> (Option<usize>, usize) {
        let list = lock(&self.list);
        (list.waiting.as_ref().map(|it| it.len), list.running)
    }

    /// Closes the list, and returns the waiting tasks.
    pub(super) fn close(&self) -> impl Iterator<Item = Arc<dyn Task>> + use<> {
        let closed = lock(&self.list).waiting.take().unwrap_or_default();
        self.common.uncount(closed.len);
        closed.chunks.into_iter().flatten().map(|(_, task)| task)
    }
}

/// Where a task waits: in the timer and in a list.
pub(super) struct Place {
    /// Wakes the task.
    sleep: Sleep,
    pub(super) shard: Arc<Shard>,
    index: usize,
}

impl Place {
    /// Removes the task from the list, unless a shutdown has done so, and from the timer.
    pub(super) fn leave(self) {
        self.remove(false);
    }

    /// Removes the task, as [`leave`](Self::leave) does, and counts it as running.
    pub(super) fn start(self) -> Running {
        Running(self.remove(true))
    }

    fn remove(self, starts: bool) -> Arc<Shard> {
        let mut list = lock(&self.shard.list);
        list.running += usize::from(starts);
        let removed = list.waiting.as_mut().map(|it| it.remove(self.index));
        drop(list);
        if removed.is_some() {
            self.shard.common.uncount(1);
        }
        drop(self.sleep);
        self.shard
    }
}

/// Counts as running in its list until it is dropped.
pub(super) struct Running(pub(super) Arc<Shard>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut list = lock(&self.0.list);
        list.running -= 1;
        let is_idle = list.running == 0;
        drop(list);
        if is_idle {
            self.0.common.idle.notify_waiters();
        }
    }
}

const CHUNK: usize = 256;

/// Tasks by their indices, in chunks.
#[derive(Default)]
struct Places {
    chunks: Vec<Slab<Arc<dyn Task>>>,
    /// The chunks that are not full.
    with_room: Vec<usize>,
    /// The chunk that last became empty. No other empty chunk has memory, so a list that grows and shrinks by one does not
    /// allocate each time.
    emptied: usize,
    len: usize,
}

impl Places {
    fn insert(&mut self, task: Arc<dyn Task>) -> usize {
        if self.with_room.is_empty() {
            self.with_room.push(self.chunks.len());
            self.chunks.push(Slab::new());
        }
        let number = self.with_room[self.with_room.len() - 1];
        let chunk = &mut self.chunks[number];
        if chunk.capacity() == 0 {
            chunk.reserve(CHUNK);
        }
        let index = chunk.insert(task);
        if chunk.len() == CHUNK {
            self.with_room.pop();
        }
        self.len += 1;
        number * CHUNK + index
    }

    fn remove(&mut self, index: usize) -> Arc<dyn Task> {
        let number = index / CHUNK;
        let chunk = &mut self.chunks[number];
        if chunk.len() == CHUNK {
            self.with_room.push(number);
        }
        let task = chunk.remove(index % CHUNK);
        if chunk.is_empty() && number != self.emptied {
            let last = mem::replace(&mut self.emptied, number);
            if self.chunks[last].is_empty() {
                self.chunks[last] = Slab::new();
            }
        }
        self.len -= 1;
        task
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use std::{any::Any, task::Waker};

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::schedule::{Unstarted, task::Status};

    struct Numbered(u64);

    impl Task for Numbered {
        fn cancel(&self) -> bool {
            false
        }

        fn give_back(&self) -> Option<Unstarted> {
            None
        }

        fn status(&self) -> Status {
            Status::new(self.0, Instant::now())
        }

        fn poll_result(&self, _: &Waker, _: &mut dyn Any) -> Poll<()> {
            Poll::Pending
        }

        fn detach(&self) {}
    }

    proptest! {
        /// Tasks keep their indices, a free place is used before a new chunk, and the memory goes back.
        #[test]
        fn tasks_keep_their_indices(removals in vec(any::<usize>(), 0..2_000), more in 0..2_000_u64) {
            let mut list = Places::default();
            let insert = |list: &mut Places, id| (list.insert(Arc::new(Numbered(id))), id);
            let mut held: Vec<_> = (0..1_000).map(|id| insert(&mut list, id)).collect();
            for removed in removals {
                if !held.is_empty() {
                    let (index, id) = held.swap_remove(removed % held.len());
                    prop_assert_eq!(list.remove(index).status().id, id);
                }
            }
            held.extend((1_000..1_000 + more).map(|id| insert(&mut list, id)));
            prop_assert_eq!(list.len, held.len());
            prop_assert_eq!(list.chunks.len(), held.len().div_ceil(CHUNK).max(4));
            prop_assert!(list.chunks.iter().all(|chunk| chunk.capacity() <= CHUNK));
            for (index, id) in held {
                prop_assert_eq!(list.remove(index).status().id, id);
            }
            let with_memory = list.chunks.iter().filter(|chunk| chunk.capacity() > 0);
            prop_assert!(list.len == 0 && with_memory.count() <= 1);
            // After a peak, a list of one task keeps its memory.
            let capacities = |list: &Places| -> Vec<_> { list.chunks.iter().map(Slab::capacity).collect() };
            let (first, _) = insert(&mut list, 0);
            list.remove(first);
            let before = capacities(&list);
            let (second, _) = insert(&mut list, 1);
            prop_assert_eq!(capacities(&list), before);
            list.remove(second);
        }
    }
}

//! The watch: a thread that keeps one blocked worker from stopping a whole runtime.
//!
//! One worker of a multi-thread runtime waits in tokio's driver for sockets and timers. The other idle workers wait for
//! that worker to wake them. If the task that an event brings blocks, nobody waits in the driver any more, so all
//! sockets and timers of the runtime stop until the task returns. One wake-up heals this: an idle worker that is
//! woken finds nothing to run, and goes to wait in the driver.
//!
//! [`workers`](super::workers) has the rule by which it wakes a worker.
//!
//! # When it looks
//!
//! Every other [period](DEFAULT_PERIOD), or every one for some time after a block that counts. It also looks [soon](SOON) after
//! a look at which workers have moved that may now block. After [`QUIET`] looks at which no worker has moved, or no entry is
//! pending, the watch [rests](super::agenda). It then looks again a period after the armed tick, because a timer that is due
//! must not wait for a blocked worker either, or when a thread resets or drops a future. So an idle process has no wake-ups.
//!
//! # The thread
//!
//! A process has one thread for all of its runtimes. The first timer with a watch starts it. A timer that ends
//! [forgets](Watch::forget) its runtime. The thread runs no user code: it spawns a task that takes the alarm's turn on the worker
//! that wakes, and so also moves the alarm away from the blocked worker, which with tokio's alternative timer owns it. It does not
//! notify the driver's task, because that task may wait in the blocked worker's LIFO slot.

use std::{
    ptr,
    sync::Arc,
    task::Wake,
    thread::{self, Thread},
    time::{Duration, Instant},
};

use bounded_wheel::NEVER;
use tokio::runtime;

use crate::{
    driver::{
        shared::Shared,
        workers::{Seen, Workers},
    },
    ground::{
        sync::{Mutex, Ordering::Relaxed, const_fn},
        trace, unwind,
    },
};

/// The time between two looks, if the builder sets none.
///
/// With 10 ms, the first block holds sockets and timers up for at most 22 ms, and the next ones for at most 12. The looks take
/// 0.2 to 0.3% of a core, and 0.5% while tasks block, as any thread does that wakes up as often.
pub(crate) const DEFAULT_PERIOD: Duration = Duration::from_millis(10);

/// The part of a period after which the watch looks again at workers that may block.
const SOON: u32 = 6;

/// The number of quiet looks after which the watch rests.
const QUIET: u32 = 5;

/// The watch of a process.
pub(crate) struct Watch(Mutex<State>);

struct State {
    thread: Option<Thread>,
    timers: Vec<Watched>,
}

/// A timer whose runtime the watch looks at.
struct Watched {
    timer: Arc<Shared>,
    runtime: runtime::Handle,
    workers: Workers,
    period: Duration,
    /// The number of looks in a row at which nothing had changed, or no entry was pending.
    quiet: u32,
    /// When the next look is due. `None` while the watch rests and no entry is pending.
    next: Option<Instant>,
}

/// What a runtime does for the watch: it takes a turn if the watch wakes a worker, and reports the blocks that have ended.
type Task = (runtime::Handle, Arc<Shared>, Seen);

impl Watch {
    const_fn! {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(State {
                thread: None,
                timers: Vec::new(),
            }))
        }
    }

    /// Watches the runtime of a timer. Does nothing if the system refuses the thread.
    pub(crate) fn add(
        &'static self,
        timer: Arc<Shared>,
        runtime: runtime::Handle,
        period: Duration,
    ) {
        let now = Instant::now();
        let mut state = self.0.lock();
        if state.thread.is_none() {
            let thread = thread::Builder::new().name("tokio-wheel-watch".into());
            let spawned = thread.spawn(|| self.run());
            state.thread = spawned.ok().map(|it| it.thread().clone());
        }
        let Some(thread) = &state.thread else {
            return;
        };
        thread.unpark();
        let _ = timer.agenda.watch.set(thread.clone());
        state.timers.push(Watched {
            timer,
            workers: Workers::new(runtime.metrics().num_workers(), period, now),
            runtime,
            period,
            quiet: 0,
            next: Some(now + period),
        });
    }

    /// Forgets the runtime of a timer that ends.
    pub(crate) fn forget(&self, timer: &Shared) {
        let mut state = self.0.lock();
        let place = (state.timers.iter()).position(|it| ptr::eq(&*it.timer, timer));
        let forgotten = place.map(|place| state.timers.swap_remove(place));
        drop(state);
        drop(forgotten);
    }

    fn run(&self) {
        let mut tasks = Vec::new();
        loop {
            let next = self.look(&mut tasks);
            for (runtime, timer, seen) in tasks.drain(..) {
                let task = async move {
                    if seen.wakes {
                        timer.wake();
                    }
                    seen.ended.into_iter().for_each(trace::block);
                };
                // With `tokio_unstable`, a hook or a subscriber may panic. If the runtime has ended, the last handle drops its
                // callbacks.
                unwind::contain(move || drop(runtime.spawn(task)));
            }
            match next {
                Some(next) => thread::park_timeout(next.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
    }

    /// Looks at the runtimes whose look is due. Returns when the next look is due.
    fn look(&self, tasks: &mut Vec<Task>) -> Option<Instant> {
        let now = Instant::now();
        let timers = &mut self.0.lock().timers;
        let next = timers.iter_mut().filter_map(|it| it.look(now, tasks));
        next.min()
    }
}

impl Watched {
    /// Looks at the workers if a look is due. Returns when the next look is due.
    fn look(&mut self, now: Instant, tasks: &mut Vec<Task>) -> Option<Instant> {
        let agenda = &self.timer.agenda;
        if self.quiet >= QUIET && !agenda.watch_rests() {
            // A thread has used the timer.
            (self.quiet, self.next) = (0, Some(now + self.period));
        }
        if self.next.is_none_or(|next| now < next) {
            return self.next;
        }
        let armed = agenda.armed();
        let alarm = agenda.clock.instant(armed).map(|it| it.into_std());
        let is_late = alarm.is_some_and(|alarm| alarm + self.period / SOON <= now);
        let metrics = self.runtime.metrics();
        let seen = self.workers.look(now, is_late, |worker| {
            let parks = metrics.worker_park_unpark_count(worker);
            (parks, metrics.worker_total_busy_duration(worker))
        });
        agenda.blocks.fetch_add(seen.counts, Relaxed);
        let lasting = Some(seen.lasting).filter(|it| *it >= self.period);
        if let Some(longest) = seen.ended.iter().copied().chain(lasting).max() {
            let nanos = longest.as_nanos() as u64;
            agenda.longest_block.fetch_max(nanos, Relaxed);
        }
        // At the end of a rest, the task of the last entry may already block.
        let is_used = seen.has_changed && (armed != NEVER || self.quiet >= QUIET);
        self.quiet = if is_used {
            0
        } else {
            self.quiet.saturating_add(1)
        };
        let pace = if seen.is_calm { 2 } else { 1 } * self.period;
        let resting = (self.quiet >= QUIET).then(|| agenda.begin_rest());
        self.next = match resting.flatten() {
            Some(until) => {
                let alarm = agenda.clock.instant(until);
                let alarm = alarm.map(|alarm| alarm.into_std().max(now) + self.period);
                // While a block lasts, the looks become rarer and rarer.
                let lasts = !seen.lasting.is_zero();
                let end = lasts.then(|| now + self.period + seen.lasting / 4);
                alarm.into_iter().chain(end).min()
            }
            None if seen.may_block => Some(now + self.period / SOON),
            None => Some(now + pace),
        };
        if seen.wakes || cfg!(feature = "tracing") && !seen.ended.is_empty() {
            tasks.push((self.runtime.clone(), self.timer.clone(), seen));
        }
        self.next
    }
}

//! The watch: a thread that keeps one blocked worker from stopping a whole runtime.
//!
//! One worker of a multi-thread runtime waits in tokio's driver for sockets and timers. The other idle workers wait for
//! that worker to wake them. If the task that an event brings blocks, nobody waits in the driver any more, so all
//! sockets and timers of the runtime stop until the task returns. One wake-up heals this: an idle worker that is
//! woken finds nothing to run, and goes to wait in the driver.
//!
//! # The rule
//!
//! tokio counts how often each worker has parked and unparked (an even number: the worker is active), and for how long
//! it has been busy, which it updates whenever the worker polls the driver. The watch reads these counts again and again. It
//! wakes a worker if
//!
//! 1. a worker is parked,
//! 2. another one is active, has not moved since the last look, and has become active since the last wake-up, and
//! 3. no worker has moved since the last look, because one that parks would go to wait in the driver; or the alarm is
//!    late, because tokio's alternative timer keeps it in the blocked worker's own wheel.
//!
//! So the watch wakes once for each block. If all active workers were already active at the last wake-up, the last
//! change since then was that some worker parked, and that worker waits in the driver.
//!
//! # When it looks
//!
//! Every [period](DEFAULT_PERIOD), and [soon](SOON) after a look at which workers have moved that may now block. After
//! [`QUIET`] looks at which no worker has moved, or no entry is pending, the watch [rests](super::blocks). It then looks again a
//! period after the armed tick, because a timer that is due must not wait for a blocked worker either, or when a thread
//! uses the timer. So an idle process has no wake-ups.
//!
//! # The thread
//!
//! A process has one thread for all of its runtimes. The first timer with a watch starts it. A timer that ends
//! [forgets](Watch::forget) its runtime. The thread runs no user code: it spawns a task that takes the alarm's turn on the worker
//! that wakes, and so also moves the alarm away from the blocked worker, which with tokio's alternative timer owns it. It does not
//! notify the driver's task, because that task may wait in the blocked worker's LIFO slot.

use std::{
    sync::Arc,
    task::{Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use bounded_wheel::NEVER;
use tokio::runtime;

use crate::{
    driver::shared::Shared,
    ground::{
        sync::{Mutex, const_fn},
        trace, unwind,
    },
};

/// The time between two looks, if the builder sets none.
///
/// With 10 ms, a block holds sockets and timers up for at most 12 ms, and the looks take about 0.2% of a core.
pub(crate) const DEFAULT_PERIOD: Duration = Duration::from_millis(10);

/// The part of a period after which the watch looks again at workers that may block.
const SOON: u32 = 6;

/// The number of quiet looks after which the watch rests.
const QUIET: u32 = 10;

/// The watch of a process.
pub(crate) struct Watch(Mutex<State>);

struct State {
    /// Unparks the thread.
    thread: Option<Waker>,
    timers: Vec<Watched>,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
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
        let mut state = self.0.lock();
        if state.thread.is_none() {
            let thread = thread::Builder::new().name("tokio-wheel-watch".into());
            let spawned = thread.spawn(|| self.run()).ok();
            state.thread = spawned.map(|it| Arc::new(Unpark(it.thread().clone())).into());
        }
        let Some(thread) = state.thread.clone() else {
            return;
        };
        timer.blocks.set_watch(thread.clone());
        state.timers.push(Watched {
            timer,
            workers: Workers::new(runtime.metrics().num_workers()),
            runtime,
            period,
            quiet: 0,
            next: Some(Instant::now() + period),
        });
        drop(state);
        thread.wake();
    }

    /// Forgets the runtime of a timer that ends.
    pub(crate) fn forget(&self, timer: &Shared) {
        let forgotten = {
            let timers = &mut self.0.lock().timers;
            let place = (timers.iter()).position(|it| std::ptr::eq(&*it.timer, timer));
            place.map(|place| timers.swap_remove(place))
        };
        drop(forgotten);
    }

    fn run(&self) {
        let mut calls = Vec::new();
        loop {
            let next = self.look(&mut calls);
            for (runtime, call) in calls.drain(..) {
                // With `tokio_unstable`, a hook or a subscriber may panic.
                unwind::contain(|| drop(runtime.spawn(async move { call.make() })));
            }
            match next {
                Some(next) => thread::park_timeout(next.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
    }

    /// Looks at the runtimes whose look is due. Returns when the next look is due.
    fn look(&self, calls: &mut Vec<(runtime::Handle, Call)>) -> Option<Instant> {
        let now = Instant::now();
        let timers = &mut self.0.lock().timers;
        let next = timers.iter_mut().filter_map(|it| it.look(now, calls));
        next.min()
    }
}

/// What the watch asks a runtime to do, because the watch does not run it itself.
enum Call {
    /// Wake a worker, which takes a turn.
    TakeTurn(Arc<Shared>),
    /// Report a block that has ended.
    Report(Duration),
}

impl Call {
    fn make(self) {
        match self {
            Self::TakeTurn(timer) => timer.wake(),
            Self::Report(length) => trace::block(length),
        }
    }
}

impl Watched {
    /// Looks at the workers if a look is due. Returns when the next look is due.
    fn look(&mut self, now: Instant, calls: &mut Vec<(runtime::Handle, Call)>) -> Option<Instant> {
        let Shared {
            blocks, parking, ..
        } = &*self.timer;
        if self.quiet >= QUIET && !blocks.is_resting() {
            // A thread has used the timer.
            (self.quiet, self.next) = (0, Some(now + self.period));
        }
        if self.next.is_none_or(|next| now < next) {
            return self.next;
        }
        let armed = parking.arming.tick();
        let alarm = parking.clock.instant(armed).map(|it| it.into_std());
        let is_late = alarm.is_some_and(|alarm| alarm + self.period / SOON <= now);
        let metrics = self.runtime.metrics();
        let seen = self.workers.look(now, is_late, |worker| {
            let parks = metrics.worker_park_unpark_count(worker);
            (parks, metrics.worker_total_busy_duration(worker))
        });
        blocks.extend_longest(seen.longest);
        if seen.wakes {
            blocks.add();
            calls.push((self.runtime.clone(), Call::TakeTurn(self.timer.clone())));
        }
        if cfg!(feature = "tracing") {
            let ended = seen.ended.iter();
            calls.extend(ended.map(|it| (self.runtime.clone(), Call::Report(*it))));
        }
        // At the end of a rest, the task of the last entry may already block.
        let is_used = armed != NEVER || self.quiet >= QUIET;
        self.quiet = match seen.has_changed && is_used {
            true => 0,
            false => self.quiet.saturating_add(1),
        };
        self.next = if self.quiet < QUIET {
            let part = if seen.may_block { SOON } else { 1 };
            Some(now + self.period / part)
        } else {
            let alarm = parking.clock.instant(self.timer.begin_rest());
            alarm.map(|alarm| alarm.into_std().max(now) + self.period)
        };
        self.next
    }
}

/// The workers of a runtime, as of the last look.
struct Workers(Vec<Worker>);

#[derive(Clone)]
struct Worker {
    /// How often the worker had parked and unparked, and for how long it had been busy.
    counts: (u64, Duration),
    /// The time of the first look that read these counts.
    since: Instant,
    /// The number of parks and unparks at the last wake-up, if the worker was active then.
    woken_for: Option<u64>,
    /// How long the block has lasted for which the watch has woken another worker.
    block: Option<Duration>,
}

/// The result of a look.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    has_changed: bool,
    /// Whether the watch wakes a worker.
    wakes: bool,
    /// Whether a worker may block that was not active at the last look.
    may_block: bool,
    /// The length of the longest block that lasts.
    longest: Duration,
    /// The lengths of blocks that have ended.
    ended: Vec<Duration>,
}

impl Workers {
    fn new(number: usize) -> Self {
        let worker = Worker {
            counts: (0, Duration::ZERO),
            since: Instant::now(),
            woken_for: None,
            block: None,
        };
        Self(vec![worker; number])
    }

    /// Compares the counts of all workers with those of the last look.
    fn look(
        &mut self,
        now: Instant,
        is_late: bool,
        read: impl Fn(usize) -> (u64, Duration),
    ) -> Seen {
        let mut seen = Seen::default();
        let (mut is_any_parked, mut is_any_still, mut is_any_new) = (false, false, false);
        for (index, worker) in self.0.iter_mut().enumerate() {
            let counts = read(index);
            let has_changed = counts != worker.counts;
            if has_changed {
                (worker.counts, worker.since) = (counts, now);
                seen.ended.extend(worker.block.take());
            }
            let is_new = worker.is_active() && worker.woken_for != Some(counts.0);
            seen.has_changed |= has_changed;
            is_any_parked |= !worker.is_active();
            is_any_still |= is_new && !has_changed;
            is_any_new |= is_new && has_changed;
        }
        seen.wakes = is_any_parked && is_any_still && (is_late || !seen.has_changed);
        seen.may_block = is_any_parked && is_any_new;
        for worker in self.0.iter_mut().filter(|it| it.is_active()) {
            if seen.wakes {
                worker.woken_for = Some(worker.counts.0);
            }
            let length = now - worker.since;
            if worker.block.is_some() || seen.wakes && !length.is_zero() {
                worker.block = Some(length);
                seen.longest = seen.longest.max(length);
            }
        }
        seen
    }
}

impl Worker {
    fn is_active(&self) -> bool {
        self.counts.0 % 2 == 0
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    const PERIOD: Duration = DEFAULT_PERIOD;

    /// Workers whose counts a test sets, and the time of the next look.
    struct Hand {
        workers: Workers,
        counts: Vec<(u64, Duration)>,
        now: Instant,
    }

    impl Hand {
        /// Makes workers that are parked.
        fn new(workers: usize) -> Self {
            let mut hand = Self {
                workers: Workers::new(workers),
                counts: vec![(1, Duration::ZERO); workers],
                now: Instant::now(),
            };
            assert!(hand.look().has_changed);
            assert_eq!(hand.look(), Seen::default(), "all are parked");
            hand
        }

        fn look(&mut self) -> Seen {
            self.look_if(false)
        }

        fn look_if(&mut self, is_late: bool) -> Seen {
            self.now += PERIOD;
            (self.workers).look(self.now, is_late, |worker| self.counts[worker])
        }

        /// Parks or unparks a worker.
        fn turn(&mut self, worker: usize) {
            self.counts[worker].0 += 1;
        }

        fn wakes(&mut self) -> bool {
            self.look().wakes
        }
    }

    #[test]
    fn a_block_wakes_one_worker_once_and_is_measured() {
        let mut hand = Hand::new(3);
        hand.turn(0);
        let seen = hand.look();
        assert!(seen.may_block && !seen.wakes, "it has just become active");
        let seen = hand.look();
        assert_eq!((seen.wakes, seen.longest), (true, PERIOD));
        // The worker that was woken parks, and handles events from now on.
        for periods in 2..20 {
            hand.counts[1].0 += 2;
            let seen = hand.look();
            assert_eq!((seen.wakes, seen.longest), (false, periods * PERIOD));
        }
        assert!(!hand.wakes(), "another worker waits in the driver");
        hand.turn(0);
        let seen = hand.look();
        assert_eq!((seen.ended, seen.wakes), (vec![20 * PERIOD], false));
        assert_eq!(hand.look(), Seen::default());
    }

    #[test]
    fn a_worker_that_blocks_after_it_was_woken_is_a_block_of_its_own() {
        let mut hand = Hand::new(3);
        hand.turn(0);
        assert!(!hand.wakes() && hand.wakes());
        hand.turn(1);
        assert!(!hand.wakes() && hand.wakes());
        hand.turn(2);
        assert!(!hand.wakes() && !hand.wakes(), "no worker is free");
        hand.turn(0);
        assert!(
            !hand.wakes() && hand.wakes(),
            "it parks, and worker 2 has blocked since"
        );
        assert!(!hand.wakes());
    }

    #[test]
    fn busy_workers_are_left_alone() {
        let mut hand = Hand::new(2);
        hand.turn(0);
        for _ in 0..20 {
            // The worker looks for events now and then.
            hand.counts[0].1 += PERIOD;
            assert!(!hand.wakes());
        }
        hand.turn(1);
        assert!(!hand.wakes() && !hand.wakes(), "no worker is free");
    }

    #[test]
    fn a_late_alarm_wakes_a_worker_although_others_move() {
        let mut hand = Hand::new(3);
        hand.turn(0);
        assert!(
            !hand.look_if(true).wakes,
            "the worker has just become active"
        );
        hand.counts[1].0 += 2;
        assert!(!hand.wakes(), "the other worker handles events");
        hand.counts[1].0 += 2;
        let seen = hand.look_if(true);
        assert_eq!((seen.wakes, seen.longest), (true, 2 * PERIOD));
        hand.counts[1].0 += 2;
        assert!(!hand.look_if(true).wakes);
        // Only the worker that has not moved is blocked.
        hand.turn(0);
        hand.turn(1);
        let ended = hand.look().ended;
        assert_eq!(ended, [3 * PERIOD]);
    }
}

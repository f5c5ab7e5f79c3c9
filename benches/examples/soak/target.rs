//! A target is a timer under load. Its environment is the runtime that it belongs to.
//!
//! A runtime is marked as ended before it is shut down. From then on, its sleeps and tasks may be
//! dropped or orphaned. Before that, they must keep all promises.

use std::{
    fmt,
    future::Future,
    mem,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    thread,
};

use fastrand::Rng;
use futures_util::FutureExt;
use tokio_wheel::{Duration, Instant, Sleep, Timeout, Timer};
use tokio_wheel_util::schedule::Scheduler;

use crate::faults;

/// A timer is lost if it has not fired this long after its deadline. A busy machine takes far less.
const PATIENCE: Duration = Duration::from_secs(10);

pub static SLEEPS: AtomicU64 = AtomicU64::new(0);

/// What all runtimes, tasks, threads and unsettled lines of an epoch share.
pub struct Epoch {
    is_over: AtomicBool,
    /// Sleeps on their way to other tasks. Empty after the end.
    sent: Mutex<Vec<Option<Migration>>>,
}

/// A sleep that is registered with the timer of a target, and will be awaited by a task or a thread of another target.
pub type Migration = (Tracked, Arc<Target>);

impl Epoch {
    /// The number of sleeps that are on their way at a time.
    const SENT: usize = 32;

    pub fn new() -> Arc<Self> {
        let sent = (0..Self::SENT).map(|_| None).collect();
        Arc::new(Self {
            is_over: AtomicBool::new(false),
            sent: Mutex::new(sent),
        })
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = mem::take(&mut *sent);
        drop(sent);
        drop(rest);
    }

    pub fn exchange(&self, mine: Migration, rng: &mut Rng) -> Option<Migration> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let place = sent.get_mut(rng.usize(..Self::SENT))?;
        place.replace(mine)
    }
}

/// A runtime, and its disturbances.
pub struct Environment {
    pub name: &'static str,
    /// Whether its tasks block workers on purpose, which makes other tasks late.
    pub blocks: bool,
    pub scheduler: Scheduler,
    pub epoch: Arc<Epoch>,
    pub ended: AtomicBool,
}

impl Environment {
    /// Returns whether its scheduler may refuse and return tasks. Waits for a shutdown that another thread has begun.
    pub fn may_refuse(&self) -> bool {
        let may_refuse = || self.scheduler.is_shutdown() || self.ended.load(Ordering::SeqCst);
        may_refuse() || {
            thread::sleep(Duration::from_secs(1));
            may_refuse()
        }
    }
}

pub struct Target {
    pub env: Arc<Environment>,
    pub name: &'static str,
    /// The timer, or `None` for the default timer of the current runtime.
    pub timer: Option<Timer>,
}

impl Target {
    pub fn new(env: &Arc<Environment>, name: &'static str, timer: Option<Timer>) -> Arc<Self> {
        let env = env.clone();
        Arc::new(Self { env, name, timer })
    }

    pub fn has_ended(&self) -> bool {
        self.env.ended.load(Ordering::SeqCst)
    }

    pub fn sleep(self: &Arc<Self>, duration: Duration) -> Tracked {
        self.sleep_until(Instant::now() + duration)
    }

    pub fn sleep_until(self: &Arc<Self>, deadline: Instant) -> Tracked {
        let line = Line::open(self, deadline);
        let sleep = match &self.timer {
            Some(timer) => timer.sleep_until(deadline),
            None => tokio_wheel::sleep_until(deadline),
        };
        Tracked {
            sleep,
            line: Some(line),
        }
    }

    pub fn timeout<F: Future>(&self, duration: Duration, future: F) -> Timeout<F> {
        match &self.timer {
            Some(timer) => timer.timeout(duration, future),
            None => tokio_wheel::timeout(duration, future),
        }
    }

    /// Runs `load` until it ends or its timers are orphaned. In the second case the target must have ended.
    pub async fn outlive(&self, load: impl Future<Output = ()>) {
        if let Err(payload) = AssertUnwindSafe(load).catch_unwind().await {
            // Any other panic was noted where it happened.
            if faults::is_orphaned(&*payload) && !self.has_ended() {
                faults::found(format!("orphaned although it lives: {self}"));
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = if self.has_ended() { ", ended" } else { "" };
        write!(f, "{} of {}{ended}", self.name, self.env.name)
    }
}

/// Observes one timer, until the timer fires or the line is dropped.
pub struct Line {
    target: Arc<Target>,
    deadline: Instant,
}

impl Line {
    pub fn open(target: &Arc<Target>, deadline: Instant) -> Self {
        SLEEPS.fetch_add(1, Ordering::Relaxed);
        Self {
            target: target.clone(),
            deadline,
        }
    }

    pub fn move_to(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    pub fn fired(self) {
        let now = Instant::now();
        if now < self.deadline {
            let early = self.deadline - now;
            faults::found(format!("early by {early:?}: {}", self.target));
        }
    }
}

/// Checks that the timer should not have fired long before.
impl Drop for Line {
    fn drop(&mut self) {
        let late = Instant::now().saturating_duration_since(self.deadline);
        if late > PATIENCE && !self.target.has_ended() {
            faults::found(format!("lost, and {late:?} overdue: {}", self.target));
        }
    }
}

pub struct Tracked {
    sleep: Sleep,
    line: Option<Line>,
}

impl Tracked {
    /// Sets another deadline. If the sleep was ready, it gets a new line.
    pub fn reset(&mut self, target: &Arc<Target>, deadline: Instant) {
        match &mut self.line {
            Some(line) => line.move_to(deadline),
            None => self.line = Some(Line::open(target, deadline)),
        }
        Pin::new(&mut self.sleep).reset(deadline);
    }

    pub fn is_pending(&mut self, cx: &mut Context<'_>) -> bool {
        Pin::new(self).poll(cx).is_pending()
    }
}

impl Future for Tracked {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        ready!(Pin::new(&mut self.sleep).poll(cx));
        if let Some(line) = self.line.take() {
            line.fired();
        }
        Poll::Ready(())
    }
}

//! A target is a timer under load. Its environment is the runtime that it belongs to.
//!
//! Both are marked as ended before they are shut down. From then on, their sleeps and tasks may be
//! dropped or orphaned. Before that, they must keep all promises.

use std::{
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use futures_util::FutureExt;
use tokio_wheel::{Duration, Instant, Sleep, Timeout, Timer};

use crate::{
    faults,
    ledger::{Class, Line},
    migration::Migrations,
};

/// A runtime, and its disturbances.
pub struct Environment {
    pub name: &'static str,
    /// Whether its tasks block workers on purpose, which makes other tasks late.
    pub blocks: bool,
    /// Whether its default timer is shut down during its life.
    pub loses_its_timer: bool,
    /// Whether tasks that are always ready keep its workers busy, which makes other tasks late.
    pub is_saturated: AtomicBool,
    pub migrations: Arc<Migrations>,
    pub ended: AtomicBool,
}

/// A timer of a runtime.
pub struct Target {
    pub env: Arc<Environment>,
    /// The timer, or `None` for the default timer of the current runtime.
    pub timer: Option<Timer>,
    pub class: Class,
    ended: AtomicBool,
}

impl Target {
    pub fn ambient(env: &Arc<Environment>, class: Class) -> Arc<Self> {
        Self::new(env, None, class)
    }

    pub fn of(env: &Arc<Environment>, timer: Timer, class: Class) -> Arc<Self> {
        Self::new(env, Some(timer), class)
    }

    fn new(env: &Arc<Environment>, timer: Option<Timer>, class: Class) -> Arc<Self> {
        Arc::new(Self {
            env: env.clone(),
            timer,
            class,
            ended: AtomicBool::new(false),
        })
    }

    /// Marks the target as ended. Call it before shutting the timer down.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst) || self.env.ended.load(Ordering::SeqCst)
    }

    /// Returns whether the timer may return scheduled tasks before the runtime has ended.
    pub fn may_end(&self) -> bool {
        self.has_ended() || self.may_lose_timer()
    }

    /// Returns whether its timer may be shut down and replaced by another timer.
    pub fn may_lose_timer(&self) -> bool {
        self.env.loses_its_timer && self.timer.is_none()
    }

    /// Returns the timer. A target without a timer of its own uses the default timer of the current
    /// runtime.
    pub fn timer(&self) -> Timer {
        self.timer.clone().unwrap_or_else(Timer::current)
    }

    /// Creates a sleep on this target.
    pub fn sleep(self: &Arc<Self>, duration: Duration) -> Tracked {
        let earliest = Instant::now() + duration;
        let sleep = match &self.timer {
            Some(timer) => timer.sleep(duration),
            None => tokio_wheel::sleep(duration),
        };
        Tracked::new(sleep, Line::open(self, self.class, earliest))
    }

    /// Creates a sleep on this target until an instant.
    pub fn sleep_until(self: &Arc<Self>, deadline: Instant) -> Tracked {
        let sleep = match &self.timer {
            Some(timer) => timer.sleep_until(deadline),
            None => tokio_wheel::sleep_until(deadline),
        };
        Tracked::new(sleep, Line::open(self, self.class, deadline))
    }

    /// Creates a timeout on this target.
    pub fn timeout<F: Future>(&self, duration: Duration, future: F) -> Timeout<F> {
        match &self.timer {
            Some(timer) => timer.timeout(duration, future),
            None => tokio_wheel::timeout(duration, future),
        }
    }

    /// Runs `load` until it ends or its timers are orphaned. In the second case the target must
    /// have ended.
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
        write!(f, "the {} timer of {}{ended}", self.class, self.env.name)
    }
}

/// A sleep with its line.
pub struct Tracked {
    sleep: Sleep,
    /// The line, until the sleep is ready.
    line: Option<Line>,
}

impl Tracked {
    fn new(sleep: Sleep, line: Line) -> Self {
        Self {
            sleep,
            line: Some(line),
        }
    }

    pub fn deadline(&self) -> Instant {
        self.sleep.deadline()
    }

    /// Sets another deadline. If the sleep was ready, the ledger opens a new line for it.
    pub fn reset(&mut self, target: &Arc<Target>, deadline: Instant) {
        match &mut self.line {
            Some(line) => line.move_to(deadline),
            None => self.line = Some(Line::open(target, target.class, deadline)),
        }
        Pin::new(&mut self.sleep).reset(deadline);
    }

    pub fn is_not_awaited(&mut self) {
        self.line.iter_mut().for_each(Line::is_not_awaited);
    }

    /// Moves the line to another target, which will poll the sleep for the first time.
    pub fn move_over(&mut self, target: &Arc<Target>) {
        if let Some(line) = &mut self.line {
            line.move_over(target);
        }
    }

    /// Polls the sleep once, and returns whether it is pending.
    pub fn is_pending(&mut self, cx: &mut Context<'_>) -> bool {
        Pin::new(self).poll(cx).is_pending()
    }
}

impl Future for Tracked {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        ready!(Pin::new(&mut self.sleep).poll(cx));
        let now = Instant::now();
        if now < self.deadline() {
            let early = self.deadline() - now;
            faults::found(format!("early by {early:?} by its own deadline"));
        }
        if let Some(line) = self.line.take() {
            line.fired();
        }
        Poll::Ready(())
    }
}

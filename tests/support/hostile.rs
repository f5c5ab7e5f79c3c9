//! Hostile user code: wakers that run the test's code, and values that panic when they are dropped.

use std::{
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
};

use cooked_waker::{IntoWaker, WakeRef};
use tokio_wheel::{Instant, Sleep, Timer};

use super::{Wakes, poll, secs};

type Action = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// Runs one action once. The hook only observes the wakers.
pub(crate) struct Hook {
    waker: Mutex<Option<Waker>>,
    has_run: Arc<AtomicBool>,
}

#[derive(Clone, Copy, PartialEq)]
enum When {
    Clone,
    Wake,
    Drop,
}

struct Token {
    when: When,
    action: Action,
    has_run: Arc<AtomicBool>,
}

struct Hostile(Arc<Token>);

impl Hook {
    pub(crate) fn on_clone(action: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Self::new(When::Clone, action)
    }

    pub(crate) fn on_wake(action: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Self::new(When::Wake, action)
    }

    /// Creates a hook whose action runs when the last waker is dropped.
    pub(crate) fn on_drop(action: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Self::new(When::Drop, action)
    }

    fn new(when: When, action: impl FnOnce() + Send + 'static) -> Arc<Self> {
        let has_run = Arc::new(AtomicBool::new(false));
        let token = Token {
            when,
            action: Mutex::new(Some(Box::new(action))),
            has_run: has_run.clone(),
        };
        let waker = Box::new(Hostile(Arc::new(token))).into_waker();
        let waker = Mutex::new(Some(waker));
        Arc::new(Self { waker, has_run })
    }

    /// Returns the waker. There is only one, and all other wakers are its clones.
    pub(crate) fn waker(&self) -> Waker {
        let waker = self.waker.lock().unwrap().take();
        waker.expect("a hook has one waker")
    }

    pub(crate) fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }
}

impl Token {
    fn run(&self, now: When) {
        // The lock is released first, because the action may use this hook.
        let action = (self.when == now).then(|| self.action.lock().unwrap().take());
        if let Some(Some(action)) = action {
            self.has_run.store(true, Ordering::Relaxed);
            action();
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.run(When::Drop);
    }
}

impl Clone for Hostile {
    fn clone(&self) -> Self {
        self.0.run(When::Clone);
        Self(Arc::clone(&self.0))
    }
}

impl WakeRef for Hostile {
    fn wake_by_ref(&self) {
        self.0.run(When::Wake);
    }
}

impl cooked_waker::Wake for Hostile {}

/// Panics without a message on stderr, which the tests of other threads share.
pub(crate) fn quiet_panic() {
    resume_unwind(Box::new("quiet"));
}

/// A value that panics when it is dropped. As the payload of a panic, it causes a second panic.
pub(crate) struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        quiet_panic();
    }
}

/// Does everything that a user can do to a timer and to the shard of `victim`.
pub(crate) fn use_shard(mut victim: Sleep, timer: &Timer) {
    let (_, waker) = Wakes::new();
    let _ = poll(&mut victim, &waker);
    let _ = victim.is_elapsed();
    Pin::new(&mut victim).reset(Instant::now() + secs(5));
    let _ = timer.metrics();
    let mut another = timer.sleep(secs(7));
    let _ = poll(&mut another, &waker);
    drop((victim, another));
}

//! Hostile user code: wakers that act, and values that panic when they are dropped.
//!
//! A waker runs the test's code when it is cloned, when it is woken, or when its last clone is
//! dropped.

use std::{
    mem::ManuallyDrop,
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{RawWaker, RawWakerVTable, Waker},
};

use tokio_wheel::{Instant, Sleep, Timer};

use super::{Wakes, poll, secs};

type Action = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// Runs one action once. The wakers share a [`Token`]. The hook only observes it.
pub(crate) struct Hook {
    token: Mutex<Option<Arc<Token>>>,
    has_run: Arc<AtomicBool>,
}

struct Token {
    on_clone: Action,
    on_wake: Action,
    on_drop: Action,
}

impl Hook {
    pub(crate) fn on_clone(action: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Self::new(|token| &token.on_clone, action)
    }

    pub(crate) fn on_wake(action: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Self::new(|token| &token.on_wake, action)
    }

    /// Creates a hook whose action runs when the last waker is dropped.
    pub(crate) fn on_drop(action: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Self::new(|token| &token.on_drop, action)
    }

    fn new(when: impl Fn(&Token) -> &Action, action: impl FnOnce() + Send + 'static) -> Arc<Self> {
        let has_run = Arc::new(AtomicBool::new(false));
        let token = Token {
            on_clone: Action::default(),
            on_wake: Action::default(),
            on_drop: Action::default(),
        };
        let run = has_run.clone();
        *when(&token).lock().unwrap() = Some(Box::new(move || {
            run.store(true, Ordering::Relaxed);
            action();
        }));
        Arc::new(Self {
            token: Mutex::new(Some(Arc::new(token))),
            has_run,
        })
    }

    /// Returns the waker. There is only one, and all other wakers are its clones.
    pub(crate) fn waker(&self) -> Waker {
        let token = self
            .token
            .lock()
            .unwrap()
            .take()
            .expect("a hook has one waker");
        // SAFETY: the data is a strong reference of the type that the table expects.
        unsafe { Waker::from_raw(raw(token)) }
    }

    pub(crate) fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        run(&self.on_drop);
    }
}

fn run(action: &Action) {
    // The lock is released first, because the action may use this hook.
    let action = action.lock().unwrap().take();
    if let Some(action) = action {
        action();
    }
}

fn raw(token: Arc<Token>) -> RawWaker {
    RawWaker::new(Arc::into_raw(token).cast(), &TABLE)
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// SAFETY: only the waker functions below call it. Their `data` is a strong reference made by
/// [`raw`].
unsafe fn borrowed(data: *const ()) -> ManuallyDrop<Arc<Token>> {
    // SAFETY: `data` is as described above, and `ManuallyDrop` keeps the reference count.
    ManuallyDrop::new(unsafe { Arc::from_raw(data.cast()) })
}

fn clone(data: *const ()) -> RawWaker {
    // SAFETY: `data` belongs to a waker.
    let token = unsafe { borrowed(data) };
    run(&token.on_clone);
    raw(Arc::clone(&token))
}

fn wake(data: *const ()) {
    // SAFETY: `data` belongs to a waker, and waking by value consumes the reference.
    let token = ManuallyDrop::into_inner(unsafe { borrowed(data) });
    run(&token.on_wake);
}

fn wake_by_ref(data: *const ()) {
    // SAFETY: `data` belongs to a waker.
    run(&unsafe { borrowed(data) }.on_wake);
}

fn drop_waker(data: *const ()) {
    // SAFETY: `data` belongs to a waker, and dropping consumes the reference.
    drop(ManuallyDrop::into_inner(unsafe { borrowed(data) }));
}

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

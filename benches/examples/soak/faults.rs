//! The invariants that broke, and panics, of which some are meant to happen.

use std::{
    any::Any,
    panic,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// So many are kept, the rest is counted.
const KEPT: usize = 20;

static FOUND: Mutex<Vec<String>> = Mutex::new(Vec::new());
static COUNT: AtomicU64 = AtomicU64::new(0);
static COARSE_EARLY: AtomicU64 = AtomicU64::new(0);
static COARSE_EARLIEST: AtomicU64 = AtomicU64::new(0);

/// What a waker panics with that is to panic.
pub struct Deliberate;

/// What a future panics with whose timer has shut down, as far as it is the same every time.
const ORPHANED: &str = "a future was polled after its timer has shut down";

/// Notes that an invariant broke.
pub fn found(what: String) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let mut kept = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() < KEPT {
        eprintln!("\nBROKEN: {what}");
        kept.push(what);
    }
}

/// How many invariants broke, and the first of them.
pub fn all() -> (u64, Vec<String>) {
    let kept = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    (COUNT.load(Ordering::Relaxed), kept.clone())
}

/// Notes that a coarse timer was early by the exact clock. Its documentation says when that is:
/// if the machine keeps the kernel from its timer interrupt. So it is told, and breaks nothing.
pub fn coarse_early(by: Duration) {
    COARSE_EARLY.fetch_add(1, Ordering::Relaxed);
    COARSE_EARLIEST.fetch_max(by.as_nanos() as u64, Ordering::Relaxed);
}

/// How many coarse timers were early by the exact clock, and by how much at most.
pub fn coarse_early_so_far() -> (u64, Duration) {
    let earliest = Duration::from_nanos(COARSE_EARLIEST.load(Ordering::Relaxed));
    (COARSE_EARLY.load(Ordering::Relaxed), earliest)
}

/// Whether that is the panic of a future whose timer has shut down.
pub fn is_orphaned(payload: &dyn Any) -> bool {
    text(payload).starts_with(ORPHANED)
}

/// Takes every panic for a broken invariant, but for those of [`Deliberate`] and of orphaned futures.
/// Who catches one of these looks whether it had to be.
pub fn watch_panics() {
    panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        if !payload.is::<Deliberate>() && !is_orphaned(payload) {
            found(format!("{info}"));
        }
    }));
}

fn text(payload: &dyn Any) -> &str {
    match payload.downcast_ref::<String>() {
        Some(message) => message,
        None => payload.downcast_ref::<&str>().copied().unwrap_or("?"),
    }
}

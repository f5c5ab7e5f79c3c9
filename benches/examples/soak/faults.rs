//! Records broken invariants and panics. Some panics are intended.

use std::{
    any::Any,
    panic,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// The number of kept descriptions. Further faults are only counted.
const KEPT: usize = 20;

static FOUND: Mutex<Vec<String>> = Mutex::new(Vec::new());
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The payload of a waker that panics on purpose.
pub struct Deliberate;

/// The beginning of the panic message of a future whose timer has shut down.
const ORPHANED: &str = "a future was polled before its deadline and after its timer has shut down";

/// Records a broken invariant.
pub fn found(what: String) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let mut kept = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() < KEPT {
        eprintln!("\nBROKEN: {what}");
        kept.push(what);
    }
}

/// Returns how many invariants broke, and descriptions of the first of them.
pub fn all() -> (u64, Vec<String>) {
    let kept = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    (COUNT.load(Ordering::Relaxed), kept.clone())
}

/// Returns whether the payload is the panic of a future whose timer has shut down.
pub fn is_orphaned(payload: &dyn Any) -> bool {
    text(payload).starts_with(ORPHANED)
}

/// Records every panic as a broken invariant, except panics with [`Deliberate`] and of orphaned
/// futures. Code that catches such a panic checks whether it was right.
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

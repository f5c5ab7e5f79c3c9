//! Records broken invariants and panics.

use std::{
    any::Any,
    panic,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use tokio_wheel::{Duration, Instant};

/// The number of printed descriptions. Further faults are only counted.
const PRINTED: u64 = 20;

/// How long threads, tasks and memory may take to end, longer than until a sleep counts as lost.
const LIMIT: Duration = Duration::from_secs(20);

static COUNT: AtomicU64 = AtomicU64::new(0);

/// The beginning of the panic message of a future whose timer has shut down.
const ORPHANED: &str = "a future was polled before its deadline and after its timer has shut down";

pub fn found(what: String) {
    if COUNT.fetch_add(1, Relaxed) < PRINTED {
        eprintln!("\nBROKEN: {what}");
    }
}

pub fn count() -> u64 {
    COUNT.load(Relaxed)
}

/// Waits until `is_true` returns true, and returns whether it did so in time.
#[must_use]
pub fn eventually(is_true: impl Fn() -> bool) -> bool {
    let until = Instant::now() + LIMIT;
    while !is_true() {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

pub fn is_orphaned(payload: &dyn Any) -> bool {
    let message = payload.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| payload.downcast_ref::<&str>().copied());
    message.is_some_and(|message| message.starts_with(ORPHANED))
}

/// Records every panic as a broken invariant, except panics of orphaned futures.
pub fn watch_panics() {
    panic::set_hook(Box::new(|info| {
        if !is_orphaned(info.payload()) {
            found(format!("{info}"));
        }
    }));
}

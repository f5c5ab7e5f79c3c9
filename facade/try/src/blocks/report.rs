//! Writes how often tasks have blocked a worker of this process, and for how long at most.
//!
//! `cargo on-wheel` adds this file to its own copy of tokio-wheel.

use std::{
    fs::OpenOptions,
    io::Write,
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Exists while the tool compares.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../blocks");

static COUNT: AtomicU64 = AtomicU64::new(0);
static LONGEST: AtomicU64 = AtomicU64::new(0);

/// The watch calls this after each look at which it has seen a block: how many blocks count from now on, and the length in
/// nanoseconds of the longest.
pub(crate) fn seen(new: u64, length: u64) {
    let is_longer = length > LONGEST.fetch_max(length, Relaxed);
    COUNT.fetch_add(new, Relaxed);
    if new > 0 || is_longer {
        let line = format!("{} {}", COUNT.load(Relaxed), LONGEST.load(Relaxed));
        // Both numbers only grow, so the new text covers the old one, and a process may be killed at any time.
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(Path::new(FOLDER).join(process::id().to_string()));
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

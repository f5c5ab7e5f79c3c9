//! The queue of this crate.

#![expect(clippy::duplicate_mod, reason = "`theirs` has the same module")]

use tokio_wheel_util::delay_queue::{DelayQueue, Expired, Key};

use crate::delay_queue::{Duration, Instant};

#[path = "run.rs"]
pub(super) mod run;

/// Checks the key of an element that has left.
fn assert_absent(queue: &mut DelayQueue<usize>, key: Key) {
    assert_eq!(queue.try_deadline(&key), None);
    assert!(!queue.try_reset(&key, Duration::ZERO));
    assert!(!queue.try_reset_at(&key, Instant::now()));
    assert!(queue.try_remove(&key).is_none());
}

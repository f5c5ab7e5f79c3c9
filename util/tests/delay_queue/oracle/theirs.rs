//! The queue of tokio-util.

use tokio_util::time::{
    DelayQueue,
    delay_queue::{Expired, Key},
};

#[path = "run.rs"]
pub(super) mod run;

/// The key of an element that has left may name another element.
fn assert_absent(_: &mut DelayQueue<usize>, _: Key) {}

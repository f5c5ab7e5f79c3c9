//! The memory of pending sleeps.

use std::task::Waker;

use tokio_wheel::{Sleep, Timer};

use super::{alone, bytes_of};
use crate::support::{current_thread, registered, secs};

/// Promise 13. The memory of the futures and the memory of their entries count together.
#[test]
fn a_pending_sleep_takes_at_most_80_bytes() {
    const MANY: usize = 10_000;
    let _alone = alone();
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
    let (sleeps, bytes) = bytes_of(|| {
        let mut sleeps: Vec<Sleep> = Vec::with_capacity(MANY);
        sleeps.extend((0..MANY).map(|_| registered(timer.sleep(secs(30)), Waker::noop())));
        sleeps
    });
    assert_eq!(timer.metrics().pending(), sleeps.len() as u64);
    // The future and the entry each have a call site of eight bytes.
    let most = 80 + 16 * usize::from(cfg!(feature = "call-sites"));
    assert!(bytes <= most * MANY, "{MANY} sleeps take {bytes} bytes");
}

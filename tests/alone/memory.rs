//! Measures memory with an allocator that also counts the test harness. So the test creates many objects.

use std::{alloc::System, task::Waker};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio_wheel::{Sleep, Timer};

use crate::support::{current_thread, registered, secs};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Returns the result of `make`, and the number of bytes that it holds.
pub(super) fn bytes_of<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(HEAP);
    let made = make();
    let change = region.change();
    let bytes = (change.bytes_allocated).saturating_sub(change.bytes_deallocated);
    (made, bytes)
}

/// Promise 13. The memory of the futures and the memory of their entries count together.
#[test]
fn a_pending_sleep_takes_at_most_80_bytes() {
    const MANY: usize = 10_000;
    let _alone = super::alone();
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

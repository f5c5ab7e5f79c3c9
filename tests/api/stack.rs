//! The first sleep of a runtime creates the timer, and must not need much stack for the wheels of the timer.

use std::{future::pending, thread};

use tokio_wheel::{sleep, timeout};

use crate::support::{Wakes, multi_thread, poll, secs};

/// In a debug build, each function that passes a value on has a copy of it.
const STACK: usize = if cfg!(debug_assertions) {
    32 * 1_024
} else {
    24 * 1_024
};

/// A thread whose stack overflows aborts the process, and its name is in the message.
#[test]
fn the_first_sleep_needs_little_stack() {
    let firsts: [fn(); 2] = [
        || assert!(poll(&mut sleep(secs(60)), &Wakes::new().1).is_pending()),
        || assert!(poll(&mut timeout(secs(60), pending::<()>()), &Wakes::new().1).is_pending()),
    ];
    for first in firsts {
        let runtime = multi_thread(2);
        let handle = runtime.handle().clone();
        let thread =
            thread::Builder::new().name(format!("a first sleep on {STACK} bytes of stack"));
        let thread = thread.stack_size(STACK).spawn(move || {
            let _entered = handle.enter();
            first();
        });
        thread.unwrap().join().unwrap();
    }
}

//! Waits until the runtime has read what the kernel has received.
//!
//! A request may lie in the kernel's buffer while its connection looks idle. The connection learns of the
//! request when tokio's I/O driver polls the kernel for events. While all workers are busy, the I/O driver does not
//! do so. So a connection first waits for such event polls, and then decides whether it is idle.
//!
//! | runtime | how [`begin`] waits for one event poll |
//! |---|---|
//! | current-thread | A task yields. tokio polls this task again after an event poll |
//! | multi-thread | A task sleeps on tokio's own timer, which fires directly after an event poll. If another worker holds the I/O driver, a task that yields runs again before the event poll |
//!
//! The first sleep may fire after an event poll that began before the sleep. The second sleep cannot fire after the
//! same event poll. So on a multi-thread runtime, the task needs one sleep more.
//!
//! A task of its own waits, because other events may wake the task that drives the connection. The tests are
//! in `tests/hyper/event_polls.rs`.

use std::time::Duration;

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::{JoinHandle, yield_now},
    time::sleep,
};

/// The number of event polls for which a connection waits. One reports 1,024 events by default, and any socket of the
/// runtime may have an event. So together they report the events of 8,192 sockets.
const EVENT_POLLS: usize = 8;

/// Begins to wait until the I/O driver has reported what the kernel had received. The task fails only if the runtime
/// shuts down.
#[track_caller]
pub(super) fn begin() -> JoinHandle<()> {
    tokio::spawn(async {
        if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            for _ in 0..EVENT_POLLS {
                yield_now().await;
            }
        } else {
            for _ in 0..=EVENT_POLLS {
                // The resolution of tokio's timer. A shorter sleep may elapse before an event poll.
                sleep(Duration::from_millis(1)).await;
            }
        }
    })
}

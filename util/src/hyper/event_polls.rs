//! Waits until the runtime has read what the kernel has received.
//!
//! A request may lie in the kernel's buffer while its connection looks idle. The connection learns of the
//! request when tokio's I/O driver polls the kernel for events. While all workers are busy, the I/O driver does not
//! do so. So a connection first waits for such event polls, and then decides whether it is idle.
//!
//! | runtime | how a task waits for one event poll |
//! |---|---|
//! | current-thread | A task yields. tokio polls this task again after an event poll |
//! | multi-thread | A task sleeps on tokio's own timer, which fires directly after an event poll. If another worker holds the I/O driver, a task that yields runs again before the event poll |
//!
//! The first sleep may fire after an event poll that began before the sleep. The second sleep cannot fire after the
//! same event poll. So on a multi-thread runtime, the task needs one sleep more.
//!
//! A task of its own waits, because other events may wake the task that drives the connection. Connections of a runtime
//! that must wait at about the same time share this task: until it has waited for the first time, others may join. So a
//! shutdown, or a storm of idle timeouts, has one such task in a millisecond. The task owns the senders of those who wait,
//! so their waits also end if the runtime drops it. The tests are in `tests/hyper/event_polls.rs`.

use std::{
    mem,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::{
    runtime::{Handle, Id, RuntimeFlavor},
    sync::oneshot,
    task::yield_now,
    time::sleep,
};

use crate::limit::lock;

/// The number of event polls for which a connection waits. One reports 1,024 events by default, and any socket of the
/// runtime may have an event. So together they report the events of 8,192 sockets.
const EVENT_POLLS: usize = 8;

/// The connections that a task lets wait. It is empty when no other connection may join.
type Waiting = Mutex<Vec<oneshot::Sender<()>>>;

/// The task that connections of a runtime may join, if there is one.
#[derive(Default)]
pub(super) struct EventPolls(Mutex<Option<(Id, Weak<Waiting>)>>);

impl EventPolls {
    /// Returns a future that ends when the I/O driver of this runtime has reported what the kernel had received before
    /// this call, or when the runtime shuts down.
    #[track_caller]
    pub(super) fn wait(&self) -> oneshot::Receiver<()> {
        let runtime = Handle::current();
        let (ended, wait) = oneshot::channel();
        // Declared before the lock, because its drop may wake connections.
        let joined;
        let mut open = lock(&self.0);
        let of_runtime = open.as_ref().filter(|(id, _)| *id == runtime.id());
        joined = of_runtime.and_then(|(_, waiting)| waiting.upgrade());
        if let Some(waiting) = &joined {
            let mut waiting = lock(waiting);
            if !waiting.is_empty() {
                waiting.push(ended);
                return wait;
            }
        }
        let waiting = Arc::new(Mutex::new(vec![ended]));
        *open = Some((runtime.id(), Arc::downgrade(&waiting)));
        drop(open);
        runtime.spawn(poll_events(waiting));
        wait
    }
}

async fn poll_events(waiting: Arc<Waiting>) {
    let flavor = Handle::current().runtime_flavor();
    let one = async || match flavor {
        RuntimeFlavor::CurrentThread => yield_now().await,
        // The resolution of tokio's timer. A shorter sleep may elapse before an event poll.
        _ => sleep(Duration::from_millis(1)).await,
    };
    one().await;
    let _ended = mem::take(&mut *lock(&waiting));
    for _ in 0..=EVENT_POLLS {
        one().await;
    }
}

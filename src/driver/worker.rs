//! Workers of a runtime: whether the calling thread is one, and which task it runs next.

use tokio::runtime::{self, RuntimeFlavor};

use crate::ground::sync::worker_index;

/// Returns that runtime, if the calling thread is one of its workers.
///
/// A worker that has entered another runtime's handle passes for a worker of that one. So a timer
/// of that one has no idle worker woken, and a timer of its own has the driver woken but not moved.
pub(crate) fn worker_of(runtime: runtime::Id) -> Option<runtime::Handle> {
    worker_index()?;
    let current = runtime::Handle::try_current().ok()?;
    (current.id() == runtime).then_some(current)
}

/// The task that a worker woke or spawned last is its next, and no other worker may have it. Puts
/// an empty one in its place, so that an idle worker takes the other.
pub(crate) fn offer_next_task(runtime: &runtime::Handle) {
    if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
        runtime.spawn(async {});
    }
}

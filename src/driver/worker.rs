//! Workers of a runtime: whether the calling thread is a worker, and which task it runs next.

use tokio::runtime::{self, RuntimeFlavor};

use crate::ground::sync::worker_index;

/// Returns a handle of `runtime`, if the calling thread is a worker of it.
///
/// A worker that has entered the handle of another runtime counts as a worker of that runtime. This has two
/// effects:
///
/// * A timer of the other runtime wakes no idle worker.
/// * A timer of the worker's own runtime wakes the driver, but does not let another worker take it.
pub(crate) fn worker_of(runtime: runtime::Id) -> Option<runtime::Handle> {
    worker_index()?;
    let current = runtime::Handle::try_current().ok()?;
    (current.id() == runtime).then_some(current)
}

/// Lets an idle worker take the task that the calling worker has woken last.
///
/// The task that a worker woke or spawned last is its next task, and no other worker may take it. This
/// function spawns an empty task, which takes that place.
pub(crate) fn offer_next_task(runtime: &runtime::Handle) {
    if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
        runtime.spawn(async {});
    }
}

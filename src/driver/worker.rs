//! Two functions about the calling thread: [`worker_of`] and [`offer_next_task`].
//!
//! The first function checks whether the thread is a worker of a runtime. The second function changes the
//! task that the worker runs next.

use tokio::runtime::{self, RuntimeFlavor};

use crate::ground::sync::worker_index;

/// Returns a handle of `runtime`, if the calling thread is a worker of `runtime`.
///
/// A worker may run code that has entered another runtime through a handle. The function then treats the
/// worker as a worker of the other runtime. This has two effects:
///
/// * If the worker registers in a timer of the other runtime, it wakes no idle worker.
/// * If the worker registers in a timer of its own runtime, it wakes the driver. But it does not let another
///   worker take the driver.
pub(crate) fn worker_of(runtime: runtime::Id) -> Option<runtime::Handle> {
    worker_index()?;
    let current = runtime::Handle::try_current().ok()?;
    (current.id() == runtime).then_some(current)
}

/// Lets an idle worker take the task that the calling worker has woken last.
///
/// The task that a worker woke or spawned last is the worker's next task. No other worker may take that task.
/// This function spawns an empty task, which becomes the next task. Then another worker may take the woken
/// task.
pub(crate) fn offer_next_task(runtime: &runtime::Handle) {
    if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
        runtime.spawn(async {});
    }
}

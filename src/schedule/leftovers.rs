//! The scheduled tasks that the end of a timer finds waiting.
//!
//! Whoever closes a timer wakes every waker in its shards: a future's, and a scheduled task's
//! entry. Such an entry is not due. It knows by `Link::is_closing`, as it is woken by the thread
//! that closes the timer, within that call. Any other entry that is woken is due: the driver has taken
//! it out before. So each task starts or is kept, never both, and none is forgotten
//! (`schedule::loom_tests::shutdown_races_fire_and_schedule`, `tests/schedule/accounting.rs`).

use std::{
    cell::RefCell,
    mem::{ManuallyDrop, replace, take},
    sync::Arc,
};

use super::unstarted::Unstarted;
use crate::{
    driver::registrar::{End, after_closing},
    ground::sync::thread_local,
};

/// A scheduled task that the end of its timer found waiting.
pub(super) trait Leftover {
    /// Ends the task and gives it back, unless it was cancelled meanwhile.
    fn into_unstarted(self: Arc<Self>) -> Option<Unstarted>;

    /// Ends the task, and drops what it held.
    fn discard(self: Arc<Self>);
}

thread_local! {
    /// What is left over of the timer that the thread shuts down, and empty at other times. It has no
    /// destructor, so a timer can be shut down while the thread ends, too.
    static LEFT: RefCell<ManuallyDrop<Vec<Arc<dyn Leftover>>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Collects what `shut_down` leaves over, which closes a timer.
pub(super) fn of(shut_down: impl FnOnce()) -> Vec<Arc<dyn Leftover>> {
    // A waker may shut another timer down.
    let outer = LEFT.with(|left| take(&mut **left.borrow_mut()));
    shut_down();
    LEFT.with(|left| replace(&mut **left.borrow_mut(), outer))
}

/// Keeps an entry that was woken because its timer has come to that end, for whoever shuts it down. If
/// its runtime has ended, it is discarded once everybody is woken.
pub(super) fn keep(end: Option<End>, entry: Arc<impl Leftover + 'static>) {
    match end {
        Some(End::Shutdown) => LEFT.with(|left| left.borrow_mut().push(entry)),
        _ => after_closing(|| entry.discard()),
    }
}

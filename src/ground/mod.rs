//! Floor 0: what every floor above uses, and what knows nothing of timers.

pub(crate) mod coop;
pub(crate) mod give_way;
#[cfg(tokio_wheel_lock_times)]
pub mod lock_times;
pub(crate) mod sync;
pub(crate) mod thread;
pub(crate) mod trace;
pub(crate) mod unwind;
pub(crate) mod waker;

//! What the services with a wheel of their own share. A service divides time into ticks, locks its wheel, sleeps until a
//! tick, and wakes its task.

pub(crate) mod armed;
pub(crate) mod clock;
pub(crate) mod give_way;
pub(crate) mod locked_wheel;
#[cfg(tokio_wheel_util_loom)]
mod modelled;
pub(crate) mod sync;
pub(crate) mod tick_sleep;
pub(crate) mod unwind;
pub(crate) mod waker;

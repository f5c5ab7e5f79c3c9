//! What the services with a wheel of their own share. A service divides time into ticks, locks its wheel, sleeps until a
//! tick, and wakes its task.

#[cfg(any(feature = "delay_queue", feature = "idle"))]
pub(crate) mod armed;
#[cfg(any(feature = "delay_queue", feature = "idle"))]
pub(crate) mod clock;
#[cfg(any(feature = "delay_queue", feature = "idle"))]
pub(crate) mod give_way;
#[cfg(tokio_wheel_util_loom)]
mod modelled;
pub(crate) mod sync;
#[cfg(any(feature = "delay_queue", feature = "idle"))]
pub(crate) mod tick_sleep;
pub(crate) mod unwind;
pub(crate) mod waker;

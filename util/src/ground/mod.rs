//! What the services share: locks that loom can model, wakers and panics. A service with a wheel of its own divides time
//! into ticks, and sleeps until a tick.

#[cfg(feature = "idle")]
pub(crate) mod armed;
#[cfg(any(feature = "delay_queue", feature = "idle"))]
pub(crate) mod clock;
#[cfg(tokio_wheel_util_loom)]
mod modelled;
pub(crate) mod sync;
#[cfg(any(feature = "delay_queue", feature = "idle"))]
pub(crate) mod tick_sleep;
pub(crate) mod unwind;
pub(crate) mod waker;

//! Layer 0: helpers for all layers above, which do not depend on timers.
//!
//! This layer also has the types that a loom model replaces, and the events for `tracing`.

#[cfg(tokio_wheel_loom)]
mod modelled;
pub(crate) mod sync;
pub(crate) mod trace;
pub(crate) mod unwind;
pub(crate) mod wake;

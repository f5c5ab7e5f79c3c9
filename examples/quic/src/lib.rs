//! Runs quinn, a QUIC implementation, on tokio-wheel's timers.
//!
//! * [`runtime`] is the file to copy into a program.
//! * [`echo`] is a server on this runtime, with its clients.

pub mod echo;
pub mod runtime;

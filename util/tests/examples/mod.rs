//! Runs the examples, and checks what they report.

#[cfg(all(feature = "http", feature = "serve"))]
mod chain;
#[cfg(feature = "io")]
mod proxy;
#[cfg(feature = "idle")]
mod reaper;
#[cfg(feature = "schedule")]
mod scheduler;
#[cfg(all(feature = "http", feature = "serve"))]
mod server;

//! Runs the examples, and checks what they report.

#[cfg(all(feature = "http", feature = "serve"))]
mod deadline;
#[cfg(feature = "idle")]
mod reaper;
#[cfg(feature = "schedule")]
mod scheduler;
#[cfg(all(feature = "http", feature = "serve"))]
mod server;

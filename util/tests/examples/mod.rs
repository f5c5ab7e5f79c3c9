//! Runs the examples, and checks what they report.

#[cfg(feature = "idle")]
mod reaper;
#[cfg(all(feature = "http", feature = "serve"))]
mod server;

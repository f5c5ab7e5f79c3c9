//! Runs the examples, and checks what they report.

#[cfg(all(feature = "http", feature = "serve"))]
mod axum_server;
#[cfg(feature = "idle")]
mod idle_reaper;

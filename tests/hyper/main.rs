//! `tokio_wheel::hyper`, with hyper's own servers and clients.
//!
//! Most tests run under the paused clock, over streams in memory, with each of hyper's protocols. There, instants are
//! exact. `sockets.rs` has the real clock and loopback.

#![cfg(all(feature = "hyper", feature = "test-util"))]

#[path = "../support/mod.rs"]
mod support;

mod server;

mod age;
mod counting;
mod grace;
mod idle;
mod pressure;
mod runtimes;
mod shutdown;
mod sockets;
mod stages;
mod timer;
mod upgrade;

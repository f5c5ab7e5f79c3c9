//! Tests `tokio_wheel_util::hyper` with hyper's own servers and clients.
//!
//! Most tests run under the paused clock, over streams in memory, with each of hyper's protocols. Their instants are
//! exact. A file tests the module of the same name, apart from `stages.rs`.

#![cfg(feature = "hyper")]

pub(crate) mod server;

mod connections;
mod counted_io;
mod drive;
mod event_polls;
mod recheck;
mod requests;
mod stages;
mod timer;

//! The tests that share a process. Those of `alone/` measure or change theirs.

#[path = "../../tests/support/mod.rs"]
mod support;

mod deadline;
mod delay_queue;
mod examples;
mod http;
mod hyper;
mod idle;
mod io;
mod migration;
mod schedule;
mod serve;
mod stream;
mod tower;
mod traits;

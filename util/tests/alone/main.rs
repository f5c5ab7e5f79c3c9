//! Tests that change the limits of their process, or that count its allocations.

#[cfg(all(feature = "schedule", target_os = "linux"))]
mod ended_runtime;
#[cfg(feature = "http")]
mod http_allocations;
#[cfg(all(feature = "delay_queue", feature = "idle"))]
mod memory;

#[path = "../../../tests/support/alone.rs"]
mod harness;

#[allow(unused_imports, reason = "without features, there are no tests")]
use harness::{HEAP, alone, bytes_of};

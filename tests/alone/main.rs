//! Tests that fork their process, or that change its limits or measure its memory. They run one after the other.

#[path = "../support/alone.rs"]
mod harness;
#[path = "../support/mod.rs"]
mod support;

#[cfg(unix)]
mod fork;
mod memory;
#[cfg(all(feature = "high-resolution", target_os = "linux"))]
mod no_descriptor_left;
mod watch;

use harness::{alone, bytes_of};

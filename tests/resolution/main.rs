//! Tests on real clocks: of timers with a high resolution, and that no sleep is early.

#[path = "../support/mod.rs"]
mod support;

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
mod high_resolution;
mod never_early;

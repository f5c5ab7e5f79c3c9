//! Tests of timers with a coarse clock or a high resolution.

#[path = "../support/mod.rs"]
mod support;

#[cfg(all(feature = "coarse", target_os = "linux"))]
mod coarse;
#[cfg(all(feature = "high-resolution", target_os = "linux"))]
mod high_resolution;
mod never_early;

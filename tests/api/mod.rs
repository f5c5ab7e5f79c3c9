//! The public types: one file for each, and what they have in common.

#[cfg(feature = "call-sites")]
mod call_sites;
mod interval;
mod metrics;
mod panics;
mod sleep;
mod stack;
mod timeout;
mod timer;

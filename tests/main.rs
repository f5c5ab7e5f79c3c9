//! The tests that share a process, because cargo links each test program by itself.
//!
//! The tests of `alone/` measure or change their process, the subscriber of `tracing.rs` is global, and `docs.rs` needs
//! files that the package does not have.

mod support;

mod api;
mod differential;
mod examples;
mod promises;
mod resolution;

//! The tests that share a process. Each test program takes as long to link as ten tests take to run.
//!
//! The tests of `alone/` measure or change their process, the subscriber of `tracing.rs` is global, and `docs.rs` needs
//! files that the package does not have.

mod support;

mod api;
mod differential;
mod examples;
mod promises;
mod resolution;

//! tokio-wheel beside its peers: every workload is written once, generic over the peer, and shared by
//! the criterion benches (`benches/`) and by the quicker side-by-side tables of the `measure` binary.
//!
//! ```text
//! cargo bench -p tokio-wheel-benches -- churn
//! cargo run --release -p tokio-wheel-benches -- ops|touch
//! cargo run --release -p tokio-wheel-benches -- fire|storm|lateness|memory|idle|scheduled
//! cargo run --release -p tokio-wheel-benches --example lateness_plot -- docs/img
//! ```
//!
//! Use a quiet machine, and compare only within one run: absolute times drift.

pub mod cell;
pub mod fire;
pub mod lab;
pub mod late;
pub mod lateness;
pub mod peer;
pub mod schedule;
pub mod touch;
pub mod workload;

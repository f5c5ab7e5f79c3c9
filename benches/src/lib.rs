//! tokio-wheel beside its peers: every workload is written once, generic over the peer, and shared by
//! the criterion benches (`benches/`), by the `compare` binary, which measures all that the README's plots
//! show, and by the side-by-side tables of the `measure` binary. The `http` binary compares a whole server,
//! over sockets.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --bin compare
//! cargo bench -p tokio-wheel-benches -- churn
//! cargo run --release -p tokio-wheel-benches -- ops|touch
//! cargo run --release -p tokio-wheel-benches -- fire|storm|lateness|memory|idle|scheduled|saturated
//! cargo run --release -p tokio-wheel-benches --example lateness_plot -- docs/img
//! cargo run --release -p tokio-wheel-benches --bin http -- compare
//! ```
//!
//! Use a quiet machine, and compare only within one run: absolute times drift.

pub mod cell;
pub mod fire;
pub mod lab;
pub mod late;
pub mod lateness;
pub mod peer;
pub mod pending;
pub mod plot;
pub mod process;
pub mod queue;
pub mod random;
pub mod saturated;
pub mod schedule;
pub mod stats;
pub mod table;
pub mod touch;
pub mod workload;

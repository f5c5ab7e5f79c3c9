//! Measures tokio-wheel beside its peers. Every workload is written once, generic over the peer.
//! The programs and the criterion benches in `benches/` share the workloads.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --bin compare
//! cargo run --release -p tokio-wheel-benches --bin compare -- --all --requirements
//! cargo run --release -p tokio-wheel-benches --bin compare -- ops|touch|fire|storm
//! cargo run --release -p tokio-wheel-benches --bin compare -- lateness|saturated|memory|idle|scheduled|wakeup
//! cargo run --release -p tokio-wheel-benches --bin sockets -- storm|saturated|calm
//! cargo run --release -p tokio-wheel-benches --bin redis
//! cargo bench -p tokio-wheel-benches -- churn
//! ```
//!
//! `compare` prints what a program gains, and draws the plots. `sockets` measures whole servers in
//! a storm, under saturation, and in the calm. `redis` measures a pipelined client.
//!
//! Use a quiet machine, and compare only figures of one run, because absolute times drift.

pub mod cell;
pub mod fire;
pub mod floor;
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
pub mod scheduled;
pub mod stats;
pub mod stream;
pub mod table;
pub mod touch;
pub mod turns;
pub mod wakeup;
pub mod workload;

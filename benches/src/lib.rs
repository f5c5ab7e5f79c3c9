//! tokio-wheel beside its peers: every workload is written once, generic over the peer, and shared by the
//! `compare` program, which prints tables and draws the plots, and by the criterion benches (`benches/`). The
//! `sockets` program measures whole servers, over sockets: in a storm, saturated, and in the calm.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --bin compare
//! cargo run --release -p tokio-wheel-benches --bin compare -- ops|touch|fire|storm
//! cargo run --release -p tokio-wheel-benches --bin compare -- lateness|saturated|memory|idle|scheduled|wakeup
//! cargo run --release -p tokio-wheel-benches --bin sockets -- storm|saturated|calm
//! cargo bench -p tokio-wheel-benches -- churn
//! ```
//!
//! Use a quiet machine, and compare only within one run: absolute times drift.

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

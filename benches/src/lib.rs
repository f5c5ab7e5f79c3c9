//! Measures tokio-wheel beside its peers. Every workload is written once, generic over the peer.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --bin compare
//! cargo run --release -p tokio-wheel-benches --bin compare -- --all --requirements
//! cargo run --release -p tokio-wheel-benches --bin compare -- ops|fire|storm|lateness|saturated|memory|scheduled|wakeup|cores
//! cargo run --release -p tokio-wheel-benches --bin sockets -- storm|calm
//! ```
//!
//! `benches/figures.sh` runs everything that the pages show.
//!
//! Use a quiet machine, and compare only figures of one run, because absolute times drift.

/// A figure: its name, its value and its unit.
pub type Figure = (&'static str, f64, &'static str);

pub mod cell;
pub mod fire;
pub mod floor;
pub mod lab;
pub mod late;
pub mod lateness;
pub mod machine;
pub mod model;
pub mod peer;
pub mod pending;
pub mod plot;
pub mod process;
pub mod queue;
pub mod saturated;
pub mod stats;
pub mod touch;
pub mod wakeup;
pub mod workload;

//! Measures tokio-wheel beside its peers. Every workload is written once, generic over the peer.
//! `docs/figures.md` lists the commands.

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

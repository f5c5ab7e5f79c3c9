//! The messages between the processes, as JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_wheel_benches::process::{cpu_time, resident_bytes};

/// The resources that a process has used so far.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Usage {
    cpu_nanos: u64,
    pub(crate) resident_bytes: u64,
}

impl Usage {
    pub(crate) fn of_this_process() -> Self {
        Self {
            cpu_nanos: cpu_time().as_nanos() as u64,
            resident_bytes: resident_bytes(),
        }
    }

    pub(crate) fn cpu_since(&self, earlier: &Self) -> Duration {
        Duration::from_nanos(self.cpu_nanos - earlier.cpu_nanos)
    }
}

/// The measurements of the clients, for one server.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) requests: u64,
    pub(crate) requests_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    /// The server's CPU time per request.
    pub(crate) server_us: f64,
    /// The CPU time of the clients' process per request.
    pub(crate) clients_us: f64,
    /// The growth of the server's resident memory, per connection.
    pub(crate) bytes_per_connection: f64,
}

/// The time of a request of the in-process service, and the CPU time of both workers.
#[derive(Clone, Copy, Default, Serialize)]
pub(crate) struct Rpc {
    pub(crate) nanos: f64,
    pub(crate) cpu_nanos: f64,
}

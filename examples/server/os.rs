//! What the example asks of the operating system: room for its sockets, and the CPU time it took.

use std::time::Duration;

use indicatif::HumanCount;

/// A connection's two ends are both in this process.
const PER_CONNECTION: u64 = 2;

/// Descriptors that are no connection: the standard streams, listeners, the runtimes' own.
const OTHERS: u64 = 64;

/// Makes room for as many connections, or says how many there is room for.
pub(crate) fn room_for(connections: usize) -> Result<(), String> {
    let needed = (connections as u64)
        .saturating_mul(PER_CONNECTION)
        .saturating_add(OTHERS);
    let limit = raise_descriptor_limit(needed);
    if needed <= limit {
        return Ok(());
    }
    let remedy = match limit.saturating_sub(OTHERS) / PER_CONNECTION {
        0 => "Raise".to_owned(),
        fits => format!("Use --connections {fits} or fewer, or raise"),
    };
    Err(format!(
        "--connections {connections} takes {} file descriptors, two for each connection as both of \
         its ends are in this process, but the limit is {}. \
         {remedy} the limit: `ulimit -n {needed}` (beyond `ulimit -Hn` that needs root).",
        HumanCount(needed),
        HumanCount(limit),
    ))
}

/// Raises the soft limit on file descriptors as far as needed and allowed; returns what it is then.
#[cfg(unix)]
fn raise_descriptor_limit(needed: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    // `None` is no limit.
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let raised = limit.maximum.unwrap_or(u64::MAX).min(needed);
    if raised <= current {
        return current;
    }
    let request = Rlimit {
        current: Some(raised),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, request) {
        Ok(()) => raised,
        Err(_) => current,
    }
}

/// The CPU time this process has used.
#[cfg(unix)]
pub(crate) fn cpu_time() -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};

    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok()
}

#[cfg(not(unix))]
fn raise_descriptor_limit(_needed: u64) -> u64 {
    u64::MAX
}

#[cfg(not(unix))]
pub(crate) fn cpu_time() -> Option<Duration> {
    None
}

//! Asks the operating system for file descriptors, and for how busy the processors were.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use indicatif::HumanCount;

/// Both ends of a connection are in this process.
const PER_CONNECTION: u64 = 2;

/// The fewest connections to run with if the user gives no number.
const FEWEST: usize = 20;

/// Descriptors for other purposes: the standard streams, the listeners and the runtimes.
const OTHERS: u64 = 64;

/// Makes room for `asked` connections, and fails if the limit on file descriptors is too low. Without
/// `asked`, makes room for `usual` connections or for fewer. Returns their number.
pub(crate) fn room_for(asked: Option<usize>, usual: usize) -> Result<usize, String> {
    let connections = asked.unwrap_or(usual);
    let needed = (connections as u64)
        .saturating_mul(PER_CONNECTION)
        .saturating_add(OTHERS);
    let limit = raise_descriptor_limit(needed);
    if needed <= limit {
        return Ok(connections);
    }
    let fits = (limit.saturating_sub(OTHERS) / PER_CONNECTION) as usize;
    if asked.is_none() && fits >= FEWEST {
        return Ok(fits);
    }
    Err(format!(
        "{connections} connections need {} file descriptors, as both ends are in this process, and the \
         limit allows {fits} connections; raise it with `ulimit -n {needed}`, which needs root beyond \
         `ulimit -Hn`, or use fewer --connections",
        HumanCount(needed),
    ))
}

/// Raises the soft limit on file descriptors as far as needed and allowed. Returns the limit.
#[cfg(unix)]
fn raise_descriptor_limit(needed: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    // `None` means that there is no limit.
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

#[cfg(not(unix))]
fn raise_descriptor_limit(_needed: u64) -> u64 {
    u64::MAX
}

/// How busy the processors have been so far, if the system tells.
pub(crate) struct Usage {
    at: Instant,
    /// The CPU time of this process.
    process: Option<Duration>,
    /// The busy ticks and all ticks of all of the machine's processors.
    machine: Option<(u64, u64)>,
}

/// How busy the processors were between two instants.
#[derive(Clone, Copy, Default)]
pub(crate) struct Used {
    /// The CPU time of this process.
    pub(crate) process: Option<Duration>,
    /// The CPU time of this process, divided by the CPU time that all processors offered: from 0 to
    /// 1.
    pub(crate) share: Option<f64>,
    /// The CPU time of all programs on the machine, divided by the offered CPU time: from 0 to 1.
    pub(crate) machine: Option<f64>,
}

impl Usage {
    pub(crate) fn since(&self, before: &Usage) -> Used {
        let process = self
            .process
            .zip(before.process)
            .map(|(now, then)| now - then);
        let could = (self.at - before.at).as_secs_f64() * cpus() as f64;
        let machine = self.machine.zip(before.machine).and_then(|(now, then)| {
            let all = now.1.checked_sub(then.1).filter(|all| *all > 0)?;
            Some(now.0.saturating_sub(then.0) as f64 / all as f64)
        });
        Used {
            process,
            share: process.map(|process| process.as_secs_f64() / could),
            machine,
        }
    }
}

pub(crate) fn usage() -> Usage {
    Usage {
        at: Instant::now(),
        process: cpu_time(),
        machine: fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|stat| machine(&stat)),
    }
}

/// Returns the number of processors that this process may use.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Reads the first line of Linux's `/proc/stat`. It contains the ticks of user, nice, system, idle,
/// iowait, irq, softirq and steal. Other systems have no such file.
fn machine(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|ticks| ticks.parse().ok())
        .collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    let all: u64 = ticks.iter().sum();
    Some((all - idle, all))
}

#[cfg(unix)]
fn cpu_time() -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};

    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok()
}

#[cfg(not(unix))]
fn cpu_time() -> Option<Duration> {
    None
}

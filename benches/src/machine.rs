//! Describes the machine, and measures how busy other programs keep it.

use std::{fs, thread};

use procfs::{CpuInfo, Current as _, CurrentSI as _, KernelStats, process::Process};

use crate::process::NO_PROC;

/// The share of the cores' time that other programs and the host of a virtual machine may take before
/// the figures suffer.
const QUIET: f64 = 0.05;

/// Returns the names of the processor and the kernel, and the version of tokio.
pub fn name() -> String {
    let info = CpuInfo::current().ok();
    let model = info.as_ref().and_then(|info| info.model_name(0));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{}, Linux {}, tokio {}",
        model.unwrap_or("unknown processor"),
        kernel.trim(),
        tokio(),
    )
}

/// Returns the version of tokio that Cargo has locked for this build.
fn tokio() -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let package = lock.split_once("name = \"tokio\"\nversion = \"");
    let version = package.and_then(|(_, rest)| rest.split_once('"'));
    version.expect("tokio is a dependency").0
}

/// Returns how many cores this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Counts of ticks, over all cores.
#[derive(Clone, Copy)]
pub struct Ticks {
    total: u64,
    /// The ticks in which a process ran, or in which the host ran something else.
    used: u64,
    /// The ticks in which this process ran, or a child process that it has waited for.
    own: u64,
}

impl Ticks {
    pub fn read() -> Self {
        let own = Process::myself().and_then(|process| process.stat());
        let own = own.expect(NO_PROC);
        let children = own.cutime.max(0) + own.cstime.max(0);
        let all = KernelStats::current().expect(NO_PROC).total;
        let used = all.user + all.nice + all.system + all.steal.unwrap_or(0);
        Self {
            total: used + all.idle + all.iowait.unwrap_or(0),
            used,
            own: own.utime + own.stime + children as u64,
        }
    }

    /// Returns the share of the time that others took between this reading and a later one.
    pub fn busy_until(self, later: Self) -> f64 {
        let used = (later.used - self.used).saturating_sub(later.own - self.own);
        used as f64 / (later.total - self.total).max(1) as f64
    }
}

/// Says whether a machine is quiet on which others take this share of the cores' time.
pub fn describe(busy: f64) -> String {
    let took = format!(
        "other processes and the host took {:.0}% of the cores' time",
        busy * 100.0
    );
    if busy <= QUIET {
        return format!("A quiet machine: {took}.");
    }
    format!(
        "WARNING, a busy machine: {took}.\n\
         Figures are too high and intervals too wide. End other programs and run this again."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_program_uses_is_not_the_others() {
        let ticks = |total, used, own| Ticks { total, used, own };
        let (before, after) = (ticks(1_000, 100, 50), ticks(2_000, 520, 410));
        assert_eq!(before.busy_until(after), 0.06);
    }
}

//! Describes the machine, and measures how busy other programs keep it.

use std::{fs, thread, time::Duration};

use procfs::{CpuInfo, Current as _, CurrentSI as _, KernelStats, process::Process};

use crate::lab;

/// The share of the cores' time that other programs and the host of a virtual machine may take before
/// the figures suffer.
const QUIET: f64 = 0.05;

/// How long to observe the machine before the first job.
const LOOK: Duration = Duration::from_millis(500);

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

/// Counts of ticks, over the cores that this process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ticks {
    total: u64,
    /// The ticks in which a process ran, or in which the host ran something else.
    used: u64,
    /// The ticks in which this process ran, or a child process that it has waited for.
    own: u64,
}

impl Ticks {
    /// Reads the counts. Returns `None` where Linux's `/proc` is missing.
    pub fn read() -> Option<Self> {
        let own = Process::myself().ok()?.stat().ok()?;
        let children = own.cutime.max(0) + own.cstime.max(0);
        let mut ticks = Self {
            own: own.utime + own.stime + children as u64,
            ..Self::default()
        };
        let stats = KernelStats::current().ok()?;
        for core in lab::cores() {
            let cpu = stats.cpu_time.get(core)?;
            let used = cpu.user + cpu.nice + cpu.system + cpu.steal?;
            ticks.used += used;
            ticks.total += used + cpu.idle + cpu.iowait? + cpu.irq? + cpu.softirq?;
        }
        Some(ticks)
    }

    /// Returns the share of the time that others took since an earlier reading, or `None` if no tick
    /// has passed.
    pub fn since(self, before: Self) -> Option<f64> {
        let total = self.total.saturating_sub(before.total);
        let own = self.own.saturating_sub(before.own);
        let used = self.used.saturating_sub(before.used);
        (total > 0).then(|| used.saturating_sub(own) as f64 / total as f64)
    }
}

/// Returns how busy other programs are before the first job.
pub fn look() -> Option<f64> {
    let before = Ticks::read()?;
    thread::sleep(LOOK);
    Ticks::read()?.since(before)
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
        let busy = after.since(before).expect("a thousand ticks");
        assert_eq!(busy, 0.06);
        assert!(describe(busy).contains("WARNING") && !describe(0.04).contains("WARNING"));
        assert_eq!(before.since(before), None);
        assert!(Ticks::read().expect("tests run on Linux").total > 0);
    }
}

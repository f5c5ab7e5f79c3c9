//! Describes the machine, and measures how busy other programs keep it.

use std::{fs, thread, time::Duration};

use procfs::{CpuInfo, Current as _, CurrentSI as _, KernelStats, process::Process};
use serde::{Deserialize, Serialize};
use tokio_wheel_benches::lab;

/// The share of the cores' time that other programs may take before the figures suffer.
const QUIET: f64 = 0.05;

/// How long to observe the machine before the first job.
const LOOK: Duration = Duration::from_millis(500);

/// Returns the name of the processor and of the kernel.
pub(crate) fn name() -> String {
    let info = CpuInfo::current().ok();
    let model = info.as_ref().and_then(|info| info.model_name(0));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{}, Linux {}",
        model.unwrap_or("unknown processor"),
        kernel.trim()
    )
}

/// The shares of the cores' time that this program did not get.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Busy {
    /// The share that other processes used.
    pub(crate) others: f64,
    /// The share that the host of a virtual machine used.
    pub(crate) stolen: f64,
}

impl Busy {
    /// Returns whether the shares are too high for good figures.
    pub(crate) fn disturbs(self) -> bool {
        self.others + self.stolen > QUIET
    }
}

/// Counts of ticks, over the cores that this process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ticks {
    total: u64,
    /// The ticks in which any process ran.
    ran: u64,
    /// The ticks in which the host ran something else.
    stolen: u64,
    /// The ticks in which this process ran, or a child process that it has waited for.
    own: u64,
}

impl Ticks {
    /// Reads the counts. Returns `None` where Linux's `/proc` is missing.
    pub(crate) fn read() -> Option<Self> {
        let own = Process::myself().ok()?.stat().ok()?;
        let children = own.cutime.max(0) + own.cstime.max(0);
        let mut ticks = Self {
            own: own.utime + own.stime + children as u64,
            ..Self::default()
        };
        let stats = KernelStats::current().ok()?;
        for core in lab::cores() {
            let cpu = stats.cpu_time.get(core)?;
            let ran = cpu.user + cpu.nice + cpu.system;
            let waited = cpu.idle + cpu.iowait? + cpu.irq? + cpu.softirq?;
            ticks.ran += ran;
            ticks.stolen += cpu.steal?;
            ticks.total += ran + waited + cpu.steal?;
        }
        Some(ticks)
    }

    /// Returns what other programs took since an earlier reading, or `None` if no tick has passed.
    pub(crate) fn since(self, before: Self) -> Option<Busy> {
        let total = self.total.saturating_sub(before.total);
        let own = self.own.saturating_sub(before.own);
        let others = self.ran.saturating_sub(before.ran).saturating_sub(own);
        let share = |ticks| ticks as f64 / total as f64;
        (total > 0).then(|| Busy {
            others: share(others),
            stolen: share(self.stolen.saturating_sub(before.stolen)),
        })
    }
}

/// Returns how busy other programs are before the first job.
pub(crate) fn look() -> Option<Busy> {
    let before = Ticks::read()?;
    thread::sleep(LOOK);
    Ticks::read()?.since(before)
}

/// Describes the shares of the cores' time in words.
pub(crate) fn describe(busy: Busy) -> String {
    format!(
        "other processes took {:.0}% of the cores' time and the host {:.0}%",
        busy.others * 100.0,
        busy.stolen * 100.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_program_uses_is_not_the_others() {
        let before = Ticks {
            total: 1_000,
            ran: 100,
            stolen: 0,
            own: 50,
        };
        let after = Ticks {
            total: 2_000,
            ran: 500,
            stolen: 20,
            own: 410,
        };
        let busy = after.since(before).expect("a thousand ticks");
        assert_eq!((busy.others, busy.stolen), (0.04, 0.02));
        assert!(busy.disturbs());
        assert_eq!(before.since(before), None);
        assert!(Ticks::read().expect("tests run on Linux").total > 0);
    }
}

//! Describes the machine, and measures how busy other programs keep it.

use std::fs;

use serde::{Deserialize, Serialize};
use tokio_wheel_benches::lab;

/// The share of the cores' time that other programs may take before the figures suffer.
const QUIET: f64 = 0.05;

/// Returns the name of the processor and of the kernel.
pub(crate) fn name() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = (info.lines())
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, Linux {}", kernel.trim())
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ticks {
    /// All ticks.
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
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Self::parse(&stat, &own, &lab::cores())
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

    fn parse(stat: &str, own: &str, cores: &[usize]) -> Option<Self> {
        let numbers = |line: &str| -> Vec<u64> {
            let fields = line.split_whitespace();
            fields.filter_map(|field| field.parse().ok()).collect()
        };
        let (mut total, mut ran, mut stolen) = (0, 0, 0);
        for core in cores {
            let name = format!("cpu{core} ");
            let line = stat.lines().find_map(|line| line.strip_prefix(&*name))?;
            // The numbers are user, nice, system, idle, iowait, irq, softirq and steal. "user"
            // includes the ticks of guests, which follow.
            let ticks = numbers(line);
            total += ticks.iter().take(8).sum::<u64>();
            ran += ticks.iter().take(3).sum::<u64>();
            stolen += ticks.get(7)?;
        }
        // After the name, which may contain any characters, come the state and ten more fields.
        let (_, fields) = own.rsplit_once(')')?;
        let own = fields.split_whitespace().skip(11).take(4);
        let own = own.map_while(|field| field.parse::<u64>().ok()).sum();
        Some(Self {
            total,
            ran,
            stolen,
            own,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 9 0 0\n\
                        cpu0 100 10 20 800 5 1 2 30 0 0\n\
                        cpu1 200 0 40 700 0 0 0 0 0 0\n\
                        cpu20 1 1 1 1 1 1 1 1 0 0\n";
    const OWN: &str = "7 (a) b) S 1 7 7 0 -1 4 5 6 7 8 11 12 13 14 20 0";

    #[test]
    fn ticks_are_those_of_the_cores_that_may_be_used() {
        let expected = |total, ran, stolen| {
            let own = 50;
            Some(Ticks {
                total,
                ran,
                stolen,
                own,
            })
        };
        assert_eq!(Ticks::parse(STAT, OWN, &[0]), expected(968, 130, 30));
        assert_eq!(Ticks::parse(STAT, OWN, &[0, 1]), expected(1_908, 370, 30));
        assert_eq!(Ticks::parse(STAT, OWN, &[2]), None);
    }

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
    }

    #[test]
    fn the_machine_can_be_read() {
        let ticks = Ticks::read().expect("tests run on Linux");
        assert!(ticks.total > 0);
    }
}

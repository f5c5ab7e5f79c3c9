//! Describes the machine.

use std::fs;

use procfs::{CpuInfo, Current as _, LoadAverage};

use crate::{lab::cores, process::NO_PROC};

/// The load of other programs from which on the figures suffer.
const BUSY: f32 = 0.2;

/// Warns if other programs run.
pub fn warn() {
    let load = LoadAverage::current().expect(NO_PROC).one;
    if load > BUSY {
        eprintln!(
            "WARNING, a busy machine: its load was {load} in the last minute.\n\
             Figures are too high and intervals too wide. End other programs and run this again."
        );
    }
}

/// Returns the processor, the kernel, the version of tokio, and the number of cores.
pub fn name() -> String {
    let info = CpuInfo::current().ok();
    let model = info.as_ref().and_then(|info| info.model_name(0));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{}, Linux {}, tokio {}, {} cores",
        model.unwrap_or("unknown processor"),
        kernel.trim(),
        tokio(),
        cores().len(),
    )
}

fn tokio() -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let package = lock.split_once("name = \"tokio\"\nversion = \"");
    let version = package.and_then(|(_, rest)| rest.split_once('"'));
    version.expect("tokio is a dependency").0
}

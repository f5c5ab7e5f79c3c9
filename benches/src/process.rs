//! Reads the CPU time, the memory and the context switches of this process.

use std::time::Duration;

use procfs::{Current as _, Meminfo, process::Process};
use rustix::time::{ClockId, clock_gettime};

pub(crate) const NO_PROC: &str = "needs Linux's /proc";

pub fn cpu_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

pub fn thread_cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub fn resident_bytes() -> u64 {
    let status = Process::myself().and_then(|process| process.status());
    status.ok().and_then(|status| status.vmrss).expect(NO_PROC) * 1_024
}

pub fn available_bytes() -> u64 {
    let memory = Meminfo::current().expect(NO_PROC);
    memory.mem_available.unwrap_or(memory.mem_free)
}

/// Returns how often the process's threads gave up their core to wait.
pub fn context_switches() -> u64 {
    let tasks = Process::myself()
        .and_then(|process| process.tasks())
        .expect(NO_PROC);
    tasks
        .filter_map(|task| task.ok()?.status().ok()?.voluntary_ctxt_switches)
        .sum()
}

//! What this process uses: CPU time, memory, context switches. And other processes like it.

use std::{env, fs, process::Command, time::Duration};

use anyhow::ensure;
use rustix::time::{ClockId, clock_gettime};

/// The CPU time that all its threads have used.
pub fn cpu_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// The CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How much of its memory is in RAM.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("needs Linux's /proc");
    field(&status, "VmRSS:") * 1_024
}

/// How much memory the machine has to spare.
pub fn available_bytes() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").expect("needs Linux's /proc");
    field(&info, "MemAvailable:") * 1_024
}

/// How often its threads were switched away from, of their own accord or not.
pub fn context_switches() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("needs Linux's /proc");
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok())
        .map(|status| {
            field(&status, "voluntary_ctxt_switches:")
                + field(&status, "nonvoluntary_ctxt_switches:")
        })
        .sum()
}

/// Runs this program with other arguments and returns what it prints.
pub fn in_fresh_process(args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(env::current_exe()?).args(args).output()?;
    ensure!(
        output.status.success(),
        "{} failed, {}: {}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The number that follows `name` at the start of a line.
fn field(status: &str, name: &str) -> u64 {
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix(name)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or_else(|| panic!("/proc has no {name}"))
}

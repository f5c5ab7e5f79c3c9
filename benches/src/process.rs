//! Reads the CPU time, the memory and the context switches of this process, and starts other
//! processes of this program.

use std::{env, fs, process::Command, time::Duration};

use anyhow::ensure;
use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of all threads of the process.
pub fn cpu_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// Returns the CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns how many bytes of the process's memory are in RAM.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("needs Linux's /proc");
    field(&status, "VmRSS:") * 1_024
}

/// Returns how many bytes of memory are available on the machine.
pub fn available_bytes() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").expect("needs Linux's /proc");
    field(&info, "MemAvailable:") * 1_024
}

/// Returns how often the process's threads gave up their core to wait.
pub fn context_switches() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("needs Linux's /proc");
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok())
        .map(|status| field(&status, "voluntary_ctxt_switches:"))
        .sum()
}

/// Runs this program with other arguments, and returns what it prints.
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

/// Returns the number that follows `name` at the start of a line.
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

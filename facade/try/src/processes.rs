//! Processes of the program that run beside the load test, which may measure them instead of its own.

use std::{fs, path::PathBuf};

use anyhow::Result;

/// Names the processes of these programs, and the command that ends them.
pub(crate) fn running(programs: &[PathBuf]) -> Result<Option<String>> {
    let canonical = programs.iter().flat_map(fs::canonicalize);
    let paths: Vec<_> = canonical.chain(programs.iter().cloned()).collect();
    let mut running = all()?;
    running.retain(|(_, path)| paths.contains(path));
    let ids: Vec<_> = running.iter().map(|(id, _)| &id[..]).collect();
    let path = running.first().map(|(_, path)| path.display());
    Ok(path.map(|path| format!("{path} (end it with `kill {}`)", ids.join(" "))))
}

/// Returns all processes that this user may see, and their executables.
#[cfg(target_os = "linux")]
fn all() -> Result<Vec<(String, PathBuf)>> {
    let process = |entry: fs::DirEntry| {
        let path = fs::read_link(entry.path().join("exe")).ok()?;
        // A build has replaced the executable since the process started.
        let path = path.to_str()?.trim_end_matches(" (deleted)").into();
        Some((entry.file_name().into_string().ok()?, path))
    };
    let entries = fs::read_dir("/proc")?.collect::<Result<Vec<_>, _>>()?;
    Ok(entries.into_iter().filter_map(process).collect())
}

#[cfg(not(target_os = "linux"))]
fn all() -> Result<Vec<(String, PathBuf)>> {
    let mut ps = std::process::Command::new("ps");
    ps.args(["-A", "-o", "pid=", "-o", "comm="]);
    // Windows has no `ps`.
    let printed = ps.output().map(|output| output.stdout).unwrap_or_default();
    let printed = String::from_utf8_lossy(&printed);
    let process = |line: &str| {
        let (id, path) = line.trim().split_once(' ')?;
        Some((id.into(), path.trim_start().into()))
    };
    Ok(printed.lines().filter_map(process).collect())
}

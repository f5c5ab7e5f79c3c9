//! Checks how many connections the limit on open files allows.

use anyhow::{Context as _, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files a process has open beside its connections. These are the standard streams,
/// tokio's descriptors, the listener, the connection that asks for the server's usage, and some
/// spare files.
const RESERVE: u64 = 64;

/// Raises the limit as far as the process may. Returns how many files it then allows.
pub(crate) fn raise() -> anyhow::Result<u64> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum })
        .context("cannot raise RLIMIT_NOFILE")?;
    Ok(maximum.unwrap_or(u64::MAX))
}

/// Returns how many of the `wanted` connections the process may have. Prints a message if it may
/// not have all of them.
pub(crate) fn afford(wanted: u64) -> anyhow::Result<u64> {
    let files = raise()?;
    let affordable = files.saturating_sub(RESERVE).min(wanted);
    ensure!(
        affordable > 0,
        "RLIMIT_NOFILE is {files}, and files other than connections need {RESERVE}: \
         raise it, for example with `ulimit -n {}`",
        wanted + RESERVE,
    );
    if affordable < wanted {
        eprintln!(
            "RLIMIT_NOFILE is {files}, but {wanted} connections need {}: continuing with {affordable}",
            wanted + RESERVE,
        );
    }
    Ok(affordable)
}

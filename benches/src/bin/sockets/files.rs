//! How many connections the limit on open files allows.

use anyhow::{Context as _, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a process has open beside its connections: the standard streams, what tokio waits on, the
/// listener, the connection that asks for the server's usage; and something to spare.
const RESERVE: u64 = 64;

/// Lifts the limit as far as the process may lift it, and says how many files it allows then.
pub(crate) fn raise() -> anyhow::Result<u64> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum })
        .context("cannot raise RLIMIT_NOFILE")?;
    Ok(maximum.unwrap_or(u64::MAX))
}

/// As many of the `wanted` connections as a process may have. Says so if that is not all of them.
pub(crate) fn afford(wanted: u64) -> anyhow::Result<u64> {
    let files = raise()?;
    let affordable = files.saturating_sub(RESERVE).min(wanted);
    ensure!(
        affordable > 0,
        "RLIMIT_NOFILE is {files}, of which {RESERVE} are needed for other files than connections: \
         raise it, as by `ulimit -n {}`",
        wanted + RESERVE,
    );
    if affordable < wanted {
        eprintln!(
            "RLIMIT_NOFILE is {files}, but {wanted} connections need {}: going on with {affordable}",
            wanted + RESERVE,
        );
    }
    Ok(affordable)
}

//! Random programs that run on `tokio::time` and on this crate, under a paused clock. Equal events
//! must happen at equal instants.
//!
//! A program that fails is shrunk and printed, with a line `cc …` that has its seed. These commands
//! run more programs, or the same programs again:
//!
//! ```sh
//! PROPTEST_CASES=100000 cargo test --release --all-features -p tokio-wheel --test main differential
//! PROPTEST_RNG_SEED=7 cargo test --all-features -p tokio-wheel --test main differential
//! ```

#![cfg(feature = "test-util")]

mod ours;
mod program;
mod same;
mod theirs;

use std::{collections::BTreeMap, env, future::Future, time::Duration};

use proptest::prelude::ProptestConfig;

use crate::support::{paused, secs};

/// The events of each task, with the virtual time that had passed. The path of a task has the number of the child at
/// each generation, from the root.
type Log = BTreeMap<Vec<usize>, Vec<(Duration, String)>>;

/// Returns a configuration with this number of programs, unless `PROPTEST_CASES` is set.
fn programs(number: u32) -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = number;
    }
    config
}

/// Runs `body` under a paused clock. A lost wake-up would hang, but here it fails, so proptest can
/// shrink the program.
fn on_paused_clock<O>(body: impl Future<Output = O>) -> Result<O, String> {
    // This end is later than every deadline that a program waits for.
    let end = secs(1_000 * 365 * 86_400);
    let ended = paused().block_on(async { tokio::time::timeout(end, body).await });
    ended.map_err(|_| "the program hangs".to_owned())
}

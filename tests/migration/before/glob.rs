//! A glob, beside names that it does not give to the file.

use std::time::Duration;
use tokio::time::*;

pub struct Timeout;

/// An Instant, but in a comment only.
pub fn made() -> Sleep { sleep(Duration::ZERO) }

pub async fn method(timeouts: Vec<Timeout>) -> usize { timeouts.iter().map(|_| interval_at(Instant::now(), Duration::MAX).period()).count() }

pub mod public {
    pub use tokio::time::*;
}

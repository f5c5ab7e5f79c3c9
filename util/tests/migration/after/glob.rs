//! A glob import. The file defines or imports some of its names itself.

use std::time::Duration;
use tokio_wheel::{sleep, Sleep, interval_at, Instant};

pub struct Timeout;

pub fn made() -> Sleep { sleep(Duration::ZERO) }

pub async fn method(timeouts: Vec<Timeout>) -> usize { timeouts.iter().map(|_| interval_at(Instant::now(), Duration::MAX).period()).count() }

pub mod public {
    pub use tokio::time::*;
}

//! A program before step 2 of the guide. After step 2, the compiler reports the error that a comment names for its
//! line, and no other error. `.ci/migration` checks this.

#![allow(unused, reason = "the functions only show forms of code")]

use std::time::Duration;

use tokio::time::{error::Elapsed, interval, timeout};
use tokio_stream::{Stream, StreamExt, wrappers::IntervalStream};

const ZERO: Duration = Duration::ZERO;

fn ticks() -> impl Stream {
    IntervalStream::new(interval(ZERO)) // E0308
}

fn repeats(stream: impl Stream) -> impl Stream {
    stream.timeout_repeating(interval(ZERO)) // E0308
}

struct Failure;

impl From<Elapsed> for Failure {
    fn from(_: Elapsed) -> Self {
        Self
    }
}

impl From<tokio_stream::Elapsed> for Failure {
    fn from(_: tokio_stream::Elapsed) -> Self {
        Self
    }
}

async fn fails() -> Result<(), Failure> {
    timeout(ZERO, std::future::pending::<()>()).await?;
    tokio_util::future::FutureExt::timeout(std::future::pending::<()>(), ZERO).await?; // E0277
    Ok(())
}

//! The program of `breaks.rs` with the replacements of the guide.

#![allow(unused, reason = "the functions only show forms of code")]

use tokio_stream::Stream;
use tokio_wheel::{Duration, FutureExt, error::Elapsed, interval, timeout};
use tokio_wheel_util::stream::{IntervalStream, StreamExt};

const ZERO: Duration = Duration::ZERO;

fn ticks() -> impl Stream {
    IntervalStream::new(interval(ZERO))
}

fn repeats(stream: impl Stream) -> impl Stream {
    stream.timeout_repeating(interval(ZERO))
}

mod beside {
    use super::{Duration, Stream, interval};
    use tokio_stream::StreamExt;

    fn repeats(stream: impl Stream + Unpin) -> impl Stream {
        tokio_wheel_util::stream::StreamExt::timeout_repeating(
            stream.map(|_| ()),
            interval(Duration::ZERO),
        )
    }
}

struct Failure;

impl From<Elapsed> for Failure {
    fn from(_: Elapsed) -> Self {
        Self
    }
}

async fn fails() -> Result<(), Failure> {
    timeout(ZERO, std::future::pending::<()>()).await?;
    FutureExt::timeout(std::future::pending::<()>(), ZERO).await?;
    Ok(())
}

/// A setter of tokio-io-timeout with `None`.
fn unlimited<S>(stream: &mut tokio_wheel_util::io::TimeoutStream<S>) {
    use tokio_wheel_util::io::Limits;
    stream.set_limits(Limits::new().write_timeout(Duration::from_secs(5)));
}

/// The deadlines of tower-http 0.7.
fn deadlines<B>(limit: Duration, body: B) {
    use tokio_wheel_util::http::{
        BodyLimits, RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutBody,
    };
    RequestBodyTimeoutLayer::with_limits(BodyLimits::new().body_timeout(limit));
    ResponseBodyTimeoutLayer::with_limits(BodyLimits::new().body_timeout(limit));
    let body = TimeoutBody::with_limits(BodyLimits::new().body_timeout(limit), body);
}

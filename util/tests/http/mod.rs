//! Tests the timeouts of requests and bodies.
//!
//! | module | tests |
//! |---|---|
//! | `parity` | the same code with tower-http's layers and with ours |
//! | `timeout`, `grpc`, `deadline`, `body` | what only our layers do, poll by poll |
//! | `servers` | hyper's servers and clients, with the paused clock |

#![cfg(feature = "http")]

mod body;
mod deadline;
mod grpc;
mod parity;
#[cfg(feature = "hyper")]
mod servers;
mod timeout;

use std::{
    collections::VecDeque,
    convert::Infallible,
    error::Error,
    future::{Future, pending},
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Body, Bytes, Frame, SizeHint},
};
use tokio_wheel::{Duration, Instant, Sleep, Timer, advance, sleep, sleep_until};
use tokio_wheel_util::deadline::{Deadline, Exceeded, remaining, within};
use tokio_wheel_util::http::{
    BodyLimits, EXPECTED_RQ_TIMEOUT_MS, LimitExceeded, RequestBodyTimeoutLayer,
    ResponseBodyTimeoutLayer, TimeoutBody, TimeoutHeaderLayer, TimeoutLayer, format_grpc_timeout,
    parse_grpc_timeout,
};
use tower::{Layer, Service, ServiceExt as _, service_fn, util::BoxCloneService};

use crate::support::{
    Wakes, beside_a_greedy_sibling,
    log::{Log, side_by_side},
    ms, poll, secs,
};

/// Limits of 10 s for a frame and 60 s for a body.
const LIMITS: BodyLimits = BodyLimits::new()
    .frame_timeout(secs(10))
    .body_timeout(secs(60));

const BROKEN: &str = "broken";

/// A body whose parts are ready at certain instants, even if no reader waits for them.
struct Parts {
    due: VecDeque<(Instant, Frame<Bytes>)>,
    sleep: Sleep,
    size: Option<u64>,
    fails: bool,
}

impl Parts {
    /// Returns a body with a part `"part"` after each delay.
    fn at(delays: impl IntoIterator<Item = Duration>) -> Self {
        let now = Instant::now();
        let part = || Frame::data(Bytes::from_static(b"part"));
        Self {
            due: (delays.into_iter())
                .map(|delay| (now + delay, part()))
                .collect(),
            sleep: sleep_until(now),
            size: None,
            fails: false,
        }
    }

    /// Returns a body with `count` parts. The first part is ready now, and each other part after another `pause`.
    fn every(pause: Duration, count: u32) -> Self {
        Self::at((0..count).map(|n| n * pause))
    }

    /// Returns a body that has one part now and the next part after a year.
    fn stuck() -> Self {
        Self::at([Duration::ZERO, Duration::from_secs(86_400 * 365)])
    }

    fn sized(mut self) -> Self {
        self.size = Some(4 * self.due.len() as u64);
        self
    }

    fn broken(mut self) -> Self {
        self.fails = true;
        self
    }

    fn then(mut self, frame: Frame<Bytes>) -> Self {
        let last = self.due.back().map_or(Instant::now(), |(due, _)| *due);
        self.due.push_back((last, frame));
        self
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some((due, _)) = self.due.front() else {
            let fails = std::mem::take(&mut self.fails);
            return Poll::Ready(fails.then(|| Err(io::Error::other(BROKEN))));
        };
        let due = *due;
        if Instant::now() < due {
            if self.sleep.deadline() != due {
                self.sleep = sleep_until(due);
            }
            ready!(Pin::new(&mut self.sleep).poll(cx));
        }
        Poll::Ready(self.due.pop_front().map(|(_, frame)| Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.size.is_some() && self.due.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.size.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// Reads a body to its end. Returns the number of bytes, and the error if there is one.
async fn read<B: Body<Data = Bytes>>(body: B) -> (usize, Option<B::Error>) {
    let mut body = pin!(body);
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes += frame.into_data().map_or(0, |data| data.len()),
            Err(error) => return (bytes, Some(error)),
        }
    }
    (bytes, None)
}

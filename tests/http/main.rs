//! Timeouts of requests and bodies: `parity` runs the same body on tower-http's layers and on ours; `timeout`,
//! `grpc`, `deadline` and `body` test poll by poll what is ours alone; `servers` runs hyper's servers and clients
//! under the paused clock, and `sockets` runs them over loopback.

#![cfg(all(feature = "http", feature = "test-util"))]

#[path = "../support/mod.rs"]
mod support;

mod body;
mod deadline;
mod grpc;
mod parity;
mod servers;
mod sockets;
mod timeout;

use std::{
    collections::VecDeque,
    future::Future,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio_wheel::{Duration, Instant, Sleep, sleep_until};

/// What a body of the tests fails with by itself.
const BROKEN: &str = "broken";

/// A body whose parts are there at certain instants, whether someone waits for them or not.
struct Parts {
    due: VecDeque<(Instant, Frame<Bytes>)>,
    sleep: Sleep,
    size: Option<u64>,
    fails: bool,
}

impl Parts {
    /// Parts of `"part"`, each so long after now.
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

    /// So many parts, the first at once and then one each `pause`.
    fn every(pause: Duration, count: u32) -> Self {
        Self::at((0..count).map(|n| n * pause))
    }

    /// Sends one part and no more, nor an end.
    fn stuck() -> Self {
        Self::at([Duration::ZERO, Duration::from_secs(86_400 * 365)])
    }

    /// Knows its length.
    fn sized(mut self) -> Self {
        self.size = Some(4 * self.due.len() as u64);
        self
    }

    /// Fails in place of an end.
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

/// Reads a body to its end. Returns how many bytes came, and the error if there is one.
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

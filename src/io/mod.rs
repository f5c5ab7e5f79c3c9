//! Timeouts, an idle timeout and minimum rates for streams, readers and writers.
//!
//! A [`TimeoutStream`] wraps a socket. It fails an operation that exceeds one of its [`Limits`]. So a server can
//! close connections whose peer stops responding, does nothing, or sends too slowly:
//!
//! | Limit | When a waiting operation fails |
//! |---|---|
//! | [`read_timeout`](Limits::read_timeout()) | A read has waited this long. |
//! | [`write_timeout`](Limits::write_timeout()) | A write, flush or shutdown has waited this long. |
//! | [`idle_timeout`](Limits::idle_timeout()) | It has waited this long without a byte in either direction. |
//! | [`min_read_rate`](Limits::min_read_rate()), [`min_write_rate`](Limits::min_write_rate()) | Too few bytes have moved in a [window](#minimum-rate) of waiting. |
//!
//! The error has the kind [`TimedOut`](std::io::ErrorKind::TimedOut) and contains a [`LimitExceeded`]. If an
//! operation has exceeded several limits, the error names the limit that it exceeded first. The next operation
//! has its full timeouts again.
//!
//! This example cuts off a client that sends one byte per second:
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
//! use tokio_wheel::{Duration, Instant, sleep};
//! use tokio_wheel::io::{LimitExceeded, Limits, MinRate, TimeoutStream};
//!
//! const RATE: MinRate = MinRate::new(500, Duration::from_secs(10));
//! const LIMITS: Limits = Limits::new()
//!     .read_timeout(Duration::from_secs(30))
//!     .min_read_rate(RATE);
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let (mut client, server) = duplex(1_024);
//! let mut server = TimeoutStream::with_limits(server, LIMITS);
//!
//! tokio::spawn(async move {
//!     while client.write_all(b"x").await.is_ok() {
//!         sleep(Duration::from_secs(1)).await;
//!     }
//! });
//!
//! let start = Instant::now();
//! let mut request = Vec::new();
//! let error = server.read_to_end(&mut request).await.unwrap_err();
//! assert_eq!(start.elapsed(), Duration::from_secs(10));
//!
//! let limit = error.downcast::<LimitExceeded>().unwrap();
//! assert_eq!(limit, LimitExceeded::MinReadRate(RATE));
//! # }
//! ```
//!
//! # Where to put the stream
//!
//! Put a `TimeoutStream` directly around the socket, below TLS and buffers. The limits count bytes of reads and
//! writes, and they cannot count the bytes that a flush moves. Above a buffer, a long flush would count as idle.
//!
//! The limits do not know whether the peer or the application is slow. For example, hyper reads while a handler
//! works, to notice when the client disconnects. A read timeout or an idle timeout must then be longer than the
//! slowest handler.
//!
//! # Waiting
//!
//! An operation *waits* from the first poll that returns pending to the poll that returns ready. The time between
//! operations counts for no limit.
//!
//! A canceled operation continues to wait, since the stream cannot know whether another poll follows. Its wait
//! ends when the next operation in that direction is ready or fails.
//!
//! A byte *moves* when a read returns it, a write accepts it, or the user consumes it from a buffered reader.
//!
//! # Setting limits
//!
//! [`TimeoutStream::set_limits`] sets all limits at once. It restarts the limits that change, and the unchanged
//! limits continue to count.
//!
//! If an operation waits for a limit that changes, the call wakes the task of the operation. The new limit counts
//! from the next poll. The call wakes no task if the operation had no limit before. It also wakes no task if the only
//! limit was a minimum rate that allows silence.
//!
//! # Minimum rate
//!
//! A [`MinRate`] is a number of bytes and a window. The window measures the time that operations wait in one
//! direction. It pauses while the application does other work. It also pauses while a flush or a shutdown waits.
//!
//! | Window | Event | Without silence: [`MinRate::new`] | With [`allow_silence`](MinRate::allow_silence) |
//! |---|---|---|---|
//! | closed | none | It opens immediately. | It stays closed. |
//! | closed | bytes move | This cannot happen. | It opens, and the bytes count. |
//! | open | the required bytes have moved | It closes. | It closes. |
//! | open | it ends while an operation waits | The operation fails, and the window closes. | Nothing happens. |
//! | open | bytes move after its end, and are still too few | The next operation that must wait fails. The window closes. | The next operation that must wait fails. The window closes. |
//! | open | bytes move in the other direction | Nothing happens. | It closes. |
//!
//! No bytes are lost, since only an operation that must wait can fail.
//!
//! Without silence, the rate cuts off every peer that sends too few bytes. With silence, it cuts off a peer only if
//! the peer continues to send too slowly. The timeouts then limit a peer that sends nothing.
//!
//! Allow silence for protocols of requests and responses. Do not allow it for protocols that respond to small
//! messages automatically: HTTP/2 and WebSocket respond to pings. Each response closes the window, so the rate never
//! cuts off a slow peer.
//!
//! # Cost
//!
//! A stream registers one entry with the timer for all limits of both directions. It registers a second entry if
//! two tasks wait at the same time. An entry stays registered between operations, so it may wake a task once per
//! timeout without need.
//!
//! | Operation | Cost |
//! |---|---|
//! | must wait | a read of the clock, and a poll of a [`Sleep`](crate::Sleep) |
//! | is ready | usually nothing |
//! | is ready after a wait, and a window stays open | a read of the clock |
//! | is ready, while the other direction waits for an idle timeout | a read of the clock |
//!
//! A [`coarse`](crate::Builder::coarse) timer makes these reads cheaper if every limit is at least 2 s. Minimum rates
//! always read the exact clock, since a window adds up many waits.
//!
//! A stream takes 88 bytes in addition to the inner stream. Minimum rates take another 72 bytes on the heap, and the
//! second entry takes another 48.
//!
//! [`TimeoutStream::limits`] returns [`Duration::MAX`](std::time::Duration::MAX) for a duration of 292 years or more.

mod alarms;
mod counts;
mod direction;
mod error;
mod limiter;
mod limits;
mod moment;
mod now;
mod rate;
mod stream;

pub use error::LimitExceeded;
pub use limits::Limits;
pub use rate::MinRate;
pub use stream::TimeoutStream;

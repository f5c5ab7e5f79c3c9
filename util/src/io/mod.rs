//! Read, write and idle timeouts and minimum rates for sockets and other streams.
//!
//! A [`TimeoutStream`] wraps a socket. An operation that exceeds one of its [`Limits`] fails, so a server can close a
//! connection whose peer stops responding, does nothing, or sends too slowly:
//!
//! | Limit | When an operation fails |
//! |---|---|
//! | [`read_timeout`](Limits::read_timeout()) | A read fails after it has waited this long. |
//! | [`write_timeout`](Limits::write_timeout()) | A write, flush or shutdown fails after it has waited this long. |
//! | [`idle_timeout`](Limits::idle_timeout()) | An operation fails after it has waited this long while no byte moved in either direction. |
//! | [`min_read_rate`](Limits::min_read_rate()), [`min_write_rate`](Limits::min_write_rate()) | An operation fails if too few bytes have moved in a [window](#minimum-rate) of waiting time. |
//!
//! The error of a failed operation has the kind [`TimedOut`](std::io::ErrorKind::TimedOut) and contains a
//! [`LimitExceeded`]. If the operation has exceeded several limits, the error names the limit that was
//! reached first. The next operation has its full timeouts again.
//!
//! In this example, the client sends one byte per second, and the read of the server fails after 10 s:
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
//! use tokio_wheel::{Duration, Instant, sleep};
//! use tokio_wheel_util::io::{LimitExceeded, Limits, MinRate, TimeoutStream};
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
//! To copy between two streams until both are silent for too long, or one of them has ended, use a [`tunnel`]. Its streams
//! may be `TimeoutStream`s, for example with a minimum rate.
//!
//! # Where to put the stream
//!
//! Put a `TimeoutStream` directly around the socket, below TLS and buffers. It counts the bytes of reads and writes, but not
//! those of a flush. So above a buffer, a long flush would count as idle time.
//!
//! The limits cannot distinguish a slow peer from a slow application. For example, hyper reads while a handler runs, to
//! notice when the client disconnects. The read timeout and the idle timeout must then be longer than the slowest handler
//! takes.
//!
//! # Waiting
//!
//! An operation *waits* from its first pending poll until it is ready. The time between operations does not count.
//!
//! The wait of a canceled operation continues until the next operation in the same direction completes or fails, because
//! the stream cannot know whether another poll follows.
//!
//! A byte *moves* when a read returns it or a write accepts it.
//!
//! # Setting limits
//!
//! [`TimeoutStream::set_limits`] sets all limits at once. Equal limits change nothing. If a limit of a direction
//! differs, the timeouts of this direction start again at the next poll, and a [window](#minimum-rate) whose rate
//! differs closes. The idle timeout belongs to both directions. The call wakes the task whose operation waits, unless
//! the operation had no limit before.
//!
//! # Minimum rate
//!
//! A [`MinRate`] consists of a number of bytes and a window. The window measures how long operations of one
//! direction wait. The window pauses while the application does other work, and while a flush or a shutdown waits.
//! But it continues if a flush follows a canceled write. If a write follows a canceled flush, the wait starts again.
//!
//! | Window | Event | Without silence: [`MinRate::new`] | With [`allow_silence`](MinRate::allow_silence) |
//! |---|---|---|---|
//! | closed | No bytes move. | The window opens immediately. | The window stays closed. |
//! | closed | Bytes move. | This cannot happen, because the window is open. | The window opens, and these bytes are its first bytes. |
//! | open | The required bytes have moved. | The window closes. | The window closes. |
//! | open | The window ends while an operation waits. | The operation fails, and the window closes. | Nothing happens. |
//! | open | Bytes move after the end of the window, and the total is still too small. | An operation fails as soon as it must wait, and the window closes. | An operation fails as soon as it must wait, and the window closes. |
//! | open | Bytes move in the other direction. | Nothing happens. | The window closes. |
//!
//! An operation fails only while it waits. A waiting operation has moved no bytes, so no bytes are lost.
//!
//! With silence allowed, the rate limits only a peer that sends something. Use a timeout for a peer that sends nothing.
//!
//! Allow silence for protocols of requests and responses. Do not allow it for protocols that answer small messages
//! automatically, as HTTP/2 and WebSocket answer pings: each answer closes the window, so the rate would never stop a slow
//! peer.
//!
//! # Cost
//!
//! A stream registers one entry with the timer for each direction in which it has had to wait. The entry stays
//! registered between operations, and the next operation that waits postpones it. So it may wake its task once
//! after the last operation, and, while bytes move only in the other direction, once per idle timeout.
//!
//! | Case | Cost |
//! |---|---|
//! | An operation must wait. | One read of the clock, one [reset](tokio_wheel::Sleep::reset) and one poll of a [`Sleep`](tokio_wheel::Sleep). |
//! | An operation is ready. | Usually nothing. The next two rows are exceptions. |
//! | An operation is ready after a wait, and the window of its direction stays open. | One read of the clock. |
//! | An operation is ready while the other direction waits for an idle timeout. | One read of the clock. |
//!
//! A stream with all limits takes 200 bytes in addition to the inner stream, and allocates nothing.
//!
//! A [`tunnel`] allocates two buffers of 8 KiB. If it has limits, it registers one entry with the timer, which may wake the task
//! once per timeout, and a poll that moves bytes reads the clock once.
//!
//! A timeout of 584 years or more is no limit, and [`TimeoutStream::limits`] returns `None` for it.
//!
//! # Coming from tokio-io-timeout
//!
//! | tokio-io-timeout | this module |
//! |---|---|
//! | `TimeoutReader`, `TimeoutWriter`, `TimeoutStream` | [`TimeoutStream`] |
//! | `new`, then a setter | `with_limits(inner, Limits::new().read_timeout(t))`, or `new` and `set_limits` |
//! | `set_timeout(Some(t))` of a reader, `set_read_timeout(Some(t))` | `set_limits(stream.limits().read_timeout(t))` |
//! | `set_timeout(Some(t))` of a writer, `set_write_timeout(Some(t))` | `set_limits(stream.limits().write_timeout(t))` |
//! | a setter with `None` | `set_limits` with limits that lack this one |
//! | `AsyncSeek` | none: the stream is for sockets |
//! | a setter whose name ends in `_pinned` | `set_limits_pinned`, which few programs need: the stream is `Unpin` if the inner stream is |
//! | `timeout()`, `read_timeout()`, `write_timeout()` | `limits()` |
//! | an error of the kind `TimedOut` | the same, which contains a [`LimitExceeded`] |
//! | a timeout restarts in `set_timeout_pinned` only | each changed limit restarts the timeouts of its direction |
//! | 272 bytes in addition to the inner stream | 200 bytes |

mod limiter;
mod limits;
mod stream;
mod tunnel;

pub use limits::{LimitExceeded, Limits, MinRate};
pub use stream::TimeoutStream;
pub use tunnel::{Side, Tunnel, TunnelEnd, TunnelReason, tunnel};

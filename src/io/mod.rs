//! Readers and writers whose operations have deadlines.
//!
//! [`TimeoutReader`], [`TimeoutWriter`] and [`TimeoutStream`] have the methods and the meaning of
//! the types of these names in `tokio-io-timeout`. A [`TimeoutStream`] also cuts off a peer that keeps
//! a connection without using it: its [`Limits`] have an idle timeout and minimum rates.
//!
//! # What counts
//!
//! An operation *waits* from the first poll that finds it pending to the poll that finds it ready.
//! Time between the operations, which the application takes, counts for no limit. An operation
//! that is abandoned while it waits, as by `select!`, cannot be told from one that will be polled
//! later: its wait goes on until the next operation in that direction is ready or fails.
//!
//! Whether the peer or the application is the slower one is not known. hyper, for one, reads on
//! while a handler works, to see when the client goes away: a read timeout or an idle limit has to
//! be longer than what a handler may take.
//!
//! `flush` and `shutdown` are operations of the write side. Bytes have *moved* when a read has
//! returned them or a write has taken them; a buffered read moves what is consumed of its buffer.
//! What a flush moves is not seen. So these types belong directly around the socket, below TLS or
//! a buffer, whose flush may take long and would count as idle.
//!
//! | Limit        | Field of [`Limits`]               | A waiting operation fails when                     |
//! |--------------|-----------------------------------|----------------------------------------------------|
//! | timeout      | `read_timeout`, `write_timeout`   | it has waited for so long                          |
//! | idle limit   | `idle_timeout`                    | it has waited, and no byte has moved in either direction, for so long |
//! | minimum rate | `min_read_rate`, `min_write_rate` | a window is over: see below                        |
//!
//! The error is of the kind [`TimedOut`](std::io::ErrorKind::TimedOut) and contains a
//! [`LimitExceeded`], which says what limit it was. If several are exceeded, it is the one that was
//! first. The next operation that has to wait has its full time again.
//!
//! # Setting limits
//!
//! [`TimeoutStream::set_limits`] sets all limits at once. It changes only the limits that differ
//! from those before. The others go on counting: a timeout or an idle limit while an operation
//! waits, a minimum rate with its window at any time.
//!
//! A limit that changes begins to count again. An operation that waits then counts from its next
//! poll, and its task is woken for that. The task is not woken if it had no limit before, or only a
//! minimum rate that allows silence.
//!
//! The methods of `tokio-io-timeout`, as [`TimeoutStream::set_read_timeout`], set one timeout. It
//! begins to count again even if it is as before.
//!
//! # Minimum rate
//!
//! A [`MinRate`] of a direction is a number of bytes and a window. The window is an amount of
//! *waiting* in that direction: while the application is busy elsewhere, it stands still. It stands
//! still as well while a flush or a shutdown waits, since these move bytes that cannot be counted.
//!
//! | State  | What happens                                  | [`MinRate::new`]               | [`allow_silence`](MinRate::allow_silence) |
//! |--------|-----------------------------------------------|--------------------------------|----------------------------------|
//! | closed | at once                                       | a window opens                 | nothing                          |
//! | closed | bytes move                                    | cannot be                      | a window opens, and they count in it |
//! | open   | the bytes required have moved since it opened | it closes                      | it closes                        |
//! | open   | it is over, and an operation waits            | the operation fails; it closes | nothing                          |
//! | open   | it is over, and bytes have moved, still too few | the next operation that has to wait fails; it closes | as there |
//! | open   | bytes move in the other direction             | nothing                        | it closes                        |
//!
//! So where silence is not allowed, a peer is cut off that has too little to say. Where it is, that
//! is left to the timeouts, and only a peer that goes on talking, too slowly, is cut off. It is
//! always an operation that has to wait that fails, so no bytes are lost.
//!
//! To allow silence suits protocols of requests and answers. It does not suit those that answer
//! without being asked much, as HTTP/2 does pings and WebSocket does: a peer that has each of its
//! few bytes answered keeps every window from being judged. Limit such protocols by
//! [`MinRate::new`] alone, or where they keep their own account.
//!
//! # Cost
//!
//! A stream has one alarm for all limits of both directions. It gets a second one when two tasks wait at the
//! same time, as those of a split stream do. An alarm does what a [`Sleep`](crate::Sleep) does, in less memory. It
//! stays registered between the operations, so that a task may be woken once per timeout for nothing.
//!
//! | An operation         | costs                                                                     |
//! |----------------------|---------------------------------------------------------------------------|
//! | has to wait          | a read of the clock, and what it costs to poll a `Sleep` again            |
//! | is ready, also after a wait | nothing; or a read of the clock, if a window was open and is not met, or if the other direction waits and there is an idle limit |
//!
//! A timer that is [`coarse`](crate::Builder::coarse) makes these reads cheaper, if each limit of the stream is
//! long and there is no minimum rate. A window adds up many waits, which must be exact.
//!
//! A stream takes 88 bytes beside the inner stream, and 72 more on the heap if it has a minimum rate. The
//! second alarm takes 48.
//!
//! A duration of 292 years or more reads back as [`Duration::MAX`](std::time::Duration::MAX).
//!
//! # Examples
//!
//! A client that sends a byte every second is cut off after ten of them:
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
//! use tokio_wheel::{Duration, Instant, sleep};
//! use tokio_wheel::io::{LimitExceeded, Limits, MinRate, TimeoutStream};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let (mut client, server) = duplex(1_024);
//! let rate = MinRate::new(500, Duration::from_secs(10));
//! let limits = Limits::new().read_timeout(Duration::from_secs(30));
//! let mut server = TimeoutStream::new(server);
//! server.set_limits(limits.min_read_rate(rate));
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
//! let limit = error.get_ref().and_then(|e| e.downcast_ref::<LimitExceeded>());
//! assert_eq!(limit, Some(&LimitExceeded::ReadRate(rate)));
//! # }
//! ```

mod alarms;
mod counts;
mod direction;
mod error;
mod limited;
mod limiter;
mod limits;
mod moment;
mod now;
mod rate;

pub use error::LimitExceeded;
pub use limited::{Duplex, Limited, Reading, TimeoutReader, TimeoutStream, TimeoutWriter, Writing};
pub use limits::Limits;
pub use rate::MinRate;

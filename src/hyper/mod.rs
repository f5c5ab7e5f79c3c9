//! A connection's lifetime under [hyper], and a timer for hyper's connections.
//!
//! hyper drives a connection for as long as the client likes. A server of very many connections must end connections
//! that do nothing or grow old, and all of them when it shuts down. No request in flight should be lost by that.
//!
//! [`Connections`] is the handle of a server's connections, which have their [`Limits`] in common. The server opens a
//! connection, wraps its service, and drives it. This is a server of axum, for HTTP/1 and HTTP/2:
//!
//! ```
//! use axum::{routing::get, Router};
//! use hyper_util::{rt::{TokioExecutor, TokioIo}, server::conn::auto, service::TowerToHyperService};
//! use tokio::net::TcpListener;
//! use tokio_wheel::{hyper::{Connections, Limits}, Duration};
//!
//! async fn serve(listener: TcpListener, app: Router, connections: Connections) -> std::io::Result<()> {
//!     loop {
//!         let (socket, _) = listener.accept().await?;
//!         let Ok(lifetime) = connections.open() else { continue }; // Full: the client is hung up on.
//!         let service = lifetime.service(TowerToHyperService::new(app.clone()));
//!         tokio::spawn(async move {
//!             let builder = auto::Builder::new(TokioExecutor::new());
//!             let connection = builder.serve_connection_with_upgrades(TokioIo::new(socket), service);
//!             lifetime.drive(connection).await.into_result()
//!         });
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> std::io::Result<()> {
//! let limits = Limits::new()
//!     .idle(Duration::from_secs(60))
//!     .max_age(Duration::from_secs(600))
//!     .grace(Duration::from_secs(20));
//! let connections = Connections::new(limits);
//! let app = Router::new().route("/", get(|| async { "hello" }));
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! # let address = listener.local_addr()?;
//! let server = tokio::spawn(serve(listener, app, connections.clone()));
//! # use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//! # let mut client = tokio::net::TcpStream::connect(address).await?;
//! # client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await?;
//! # let mut answer = [0; 1_024];
//! # let length = client.read(&mut answer).await?;
//! # assert!(answer[..length].ends_with(b"hello"));
//!
//! // When the process is told to end:
//! server.abort();
//! connections.shutdown().await; // Requests in flight have their answer, or the grace was too short.
//! assert_eq!(connections.counts().open(), 0);
//! # assert_eq!(connections.counts().shutdown(), 1);
//! # assert_eq!(client.read(&mut answer).await?, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # The limits
//!
//! | limit | which connections it ends | which it spares |
//! |---|---|---|
//! | [`idle`](Limits::idle) | those without a request in flight for so long: a client that says nothing, keep-alive, a head that never ends | those whose request takes long, or whose answer streams for hours |
//! | [`max_age`](Limits::max_age) | all of that age, less a [`jitter`](Limits::jitter), so that a load balancer can spread clients again | none |
//! | [`grace`](Limits::grace) | those that were told to end, and have not ended after so long | those that have |
//! | [`max_connections`](Limits::max_connections) | none: it [refuses](Connections::open) further ones | all |
//! | hyper's `header_read_timeout` | HTTP/1 connections whose next head takes so long; the wait for its first byte counts | HTTP/2 connections |
//!
//! Each of these reasons tells a connection to end, by hyper's graceful shutdown. Requests in flight get their
//! answers, and the connection accepts no others, as soon as an HTTP/2 client has answered a ping. HTTP/2 sends a GOAWAY. HTTP/1 answers with `connection:
//! close`, or closes a connection that has no request in flight. When the grace ends, the connection is *cut*:
//! it is dropped with all that is in flight. [`Ended`] says why a connection has ended and whether it was cut.
//! [`Counts`] has the totals.
//!
//! No limit hides another, whichever is longer. An idle limit on the bytes of a connection does: no byte moves
//! while a handler works. So it must be longer than the longest request, and then keeps connections that are
//! idle for as long.
//!
//! # Slow clients
//!
//! | the client is slow | HTTP/1 | HTTP/2 | `auto` |
//! |---|---|---|---|
//! | to send the first byte | `idle` | `idle`, `grace` | `idle`, with an error |
//! | within the first head, or the preface of HTTP/2 | `idle`, `grace` | `idle`, `grace` | HTTP/1: `idle`, `grace`; HTTP/2: `idle`, with an error |
//! | within a later head | `idle` | `idle`, `grace` | as its protocol |
//! | within the body of a request | `max_age`, `grace` | `max_age`, `grace` | as its protocol |
//! | to read an answer | `max_age`, `grace` | `max_age`, `grace` | as its protocol |
//! | to read the end of an answer, which hyper holds in its buffers | `idle`, `grace` | `idle`, `grace` | as its protocol |
//! | to answer the ping of a graceful shutdown | | `grace` | `grace` |
//!
//! Where there are two limits, the first begins the graceful shutdown, and the end of the grace ends the
//! connection. A later head of HTTP/1 that is half sent when any limit tells the connection to end gets no answer. Tests:
//! `tests/hyper/stages.rs`.
//!
//! Set a `header_read_timeout` with a [`WheelTimer`] as well if heads must come sooner. It ends a connection
//! with an error. It also limits how long a connection of HTTP/1 may be idle, so it should be longer than
//! `idle`. Limits of how fast bodies move belong into the service, or onto the stream.
//!
//! # Upgrades
//!
//! A connection of HTTP/1 ends for hyper when it is upgraded. It has [closed](Reason::Closed), no longer counts
//! as open, and has left all limits. The handler has its I/O, and must limit it and shut it down.
//!
//! A `CONNECT` stream of HTTP/2, as of a WebSocket, stays within its connection. It is not in flight any more once its
//! response is sent. So `idle` and `grace` cut a connection that has nothing but such streams, even if they are in use.
//! A server of such streams must not set `idle` for their connections.
//!
//! # Cost
//!
//! The connections have a timer of their own, and each has one entry in it. A request sets no timer. It counts up
//! and down a number of its connection, and reads the clock if no other request is in flight at its end. Each poll of
//! the connection looks at its entry, under the lock of a shard. When the entry fires, the connection looks at the count. [`set_pressure`](Connections::set_pressure) and
//! [`shutdown`](Connections::shutdown) go through no list: they move the time of the timer ahead, and the
//! driver fires the entries that this passes.
//!
//! The table shows what all limits add to an HTTP/1 connection that has none. The last column has the same limits, built by
//! hand on `tokio::time`: two sleeps, a counter and a `watch` channel. The requests went over pipes in memory. Without
//! limits, a request and its client take 700 ns (two cores, AMD EPYC; `benches/examples/lifetime.rs`).
//!
//! | | `Connections` | by hand |
//! |---|---|---|
//! | bytes for a connection | 227 | 824 |
//! | processor time for a request, one thread | 91 ns (84 to 99) | 127 ns (123 to 131) |
//! | the same, two workers | 91 ns (54 to 114) | 116 ns (87 to 148) |
//!
//! # A timer for hyper
//!
//! [`WheelTimer`] is for wherever hyper or hyper-util takes a [`Timer`](::hyper::rt::Timer): the
//! `timer` of a server's or client's connection builder, the `pool_timer` of hyper-util's client.
//! It replaces hyper-util's `TokioTimer`:
//!
//! ```
//! use std::convert::Infallible;
//!
//! use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
//! use hyper_util::rt::TokioIo;
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//! use tokio_wheel::{hyper::WheelTimer, Duration, Instant};
//!
//! async fn hello(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
//!     Ok(Response::new("hello".to_owned()))
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> std::io::Result<()> {
//! let start = Instant::now();
//! let (mut client, server) = tokio::io::duplex(1_024);
//! client.write_all(b"GET / HTTP/1.1\r\nslow: ").await?; // And no more.
//!
//! let served = http1::Builder::new()
//!     .timer(WheelTimer::new())
//!     .header_read_timeout(Duration::from_secs(10))
//!     .serve_connection(TokioIo::new(server), service_fn(hello))
//!     .await;
//!
//! assert!(served.unwrap_err().is_timeout());
//! assert_eq!(start.elapsed(), Duration::from_secs(10));
//! # Ok(())
//! # }
//! ```

mod alarms;
mod connections;
mod counted;
mod counts;
mod drive;
mod ended;
mod error;
mod lifetime;
mod limits;
mod requests;
mod shared;
mod slot;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests;
mod timer;

pub use connections::Connections;
pub use counted::{Counted, CountedBody, CountedFuture};
pub use counts::Counts;
pub use drive::Drive;
pub use ended::{Ended, Reason};
pub use error::OpenError;
pub use lifetime::Lifetime;
pub use limits::Limits;
pub use timer::WheelTimer;

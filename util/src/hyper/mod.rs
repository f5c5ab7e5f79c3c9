//! Connection limits for a [hyper] server, and timers for hyper itself.
//!
//! | task | item |
//! |---|---|
//! | Serve an axum router or another tower service, with limits and a graceful shutdown. | [`serve`], with the feature `serve`; also at the root of the crate |
//! | Do the same in your own accept loop: close idle and old connections, and shut down. | [`Connections`] |
//! | Run hyper's own timeouts on a [`Timer`](tokio_wheel::Timer). | [`WheelTimer`] |
//!
//! hyper keeps a connection open for as long as the client wants. [`Connections`], which [`serve`] is built on, closes idle and
//! old connections, and all of them at shutdown, but first lets the requests in flight finish.
//!
//! The documentation of [`serve`] has an example of a whole server. In your own accept loop, [open](Connections::open) a
//! [`ConnectionGuard`] for each connection, and [serve](ConnectionGuard::serve) the connection with it. The loop must
//! survive a failed `accept`, and pause after it. To end the process, stop accepting, and await [`Connections::shutdown`]:
//!
//! ```
//! use axum::Router;
//! use hyper_util::{rt::{TokioExecutor, TokioIo}, server::conn::auto, service::TowerToHyperService};
//! use tokio::net::TcpStream;
//! use tokio_wheel_util::hyper::Connections;
//!
//! fn spawn(socket: TcpStream, app: Router, connections: &Connections) {
//!     let Ok(guard) = connections.open() else {
//!         return; // The server is full. This drops the socket.
//!     };
//!     tokio::spawn(async move {
//!         let builder = auto::Builder::new(TokioExecutor::new());
//!         let connect = |io, service| builder.serve_connection_with_upgrades(io, service);
//!         let service = TowerToHyperService::new(app);
//!         guard.serve(TokioIo::new(socket), service, connect).await.into_result()
//!     });
//! }
//! ```
//!
//! # The limits
//!
//! | limit | closes a connection when | does not close it when |
//! |---|---|---|
//! | [`idle`](Limits::idle) | the connection has been without a request in flight for this time | a request is slow or a response is long |
//! | [`max_age`](Limits::max_age) | the connection reaches this age, shortened by a random [`jitter`](Limits::jitter) | |
//! | [`grace`](Limits::grace) | its graceful shutdown takes longer than this time | the connection ends sooner |
//! | hyper's `header_read_timeout` | the next HTTP/1 head is not complete after this time | the connection uses HTTP/2 |
//!
//! A request is in flight from the end of its head until the response is written and flushed. So a connection is not idle while
//! a client slowly reads what hyper has in its buffers. It is idle in these cases:
//!
//! * The client sends nothing.
//! * The client keeps the connection open between two requests.
//! * The client never finishes a head.
//! * The handler has responded, but another task still reads the body of the request. The limits `idle` and
//!   `grace` then cut off the upload, and [`Ended::lost`] does not count the request. To give the client more time,
//!   end the body of the response after the body of the request.
//!
//! Each limit may be longer or shorter than the others. The maximum age makes clients reconnect from time to time, so a load
//! balancer can send them to another server.
//!
//! The limit [`max_connections`](Limits::max_connections) closes no connection, but makes [`open`](Connections::open) fail.
//!
//! When a connection reaches a limit, or when the server shuts down, hyper shuts the connection down
//! gracefully:
//!
//! * Requests in flight get their responses.
//! * On HTTP/1, hyper sends `connection: close` with the response. A connection without a request closes at
//!   once.
//! * On HTTP/2, hyper sends a GOAWAY frame and a ping. After the client answers the ping, hyper accepts no
//!   more requests.
//!
//! If the connection does not end within the time [`grace`](Limits::grace), [`Drive`] *cuts* it: it drops the connection with all
//! requests in flight. [`Ended`] tells why a connection ended and whether it was cut. [`Counts`] has the totals for all
//! connections.
//!
//! Do not enable `pipeline_flush` of hyper's HTTP/1 builder. With this option, hyper 1.12 loses responses at
//! a graceful shutdown: if it has read a part of the next request, it discards the responses in its buffer.
//! [`Ended`] and [`Counts`] do not report the loss, because hyper ends the connection without an error.
//!
//! When all workers are busy, the kernel may have requests that the server has not read yet. So before a graceful shutdown
//! begins, the connection waits until the runtime has read from all sockets, which takes a few milliseconds on a multi-thread
//! runtime. The runtime reads from at most 8,192 sockets, or fewer with tokio's `max_io_events_per_tick`. If more are readable, a
//! request may get no response. On HTTP/1, neither does a request that arrives while the server closes the connection.
//!
//! No limit measures how long a connection transfers no bytes, because a handler may work on a request for a long time. Such
//! a limit would have to be longer than the longest request, and idle connections would stay open for too long.
//!
//! # Slow clients
//!
//! These limits close the connection of a slow client. If a cell names two limits, the first one starts the graceful shutdown,
//! and the second one cuts the connection.
//!
//! | slow step of the client | HTTP/1 | HTTP/2 | `auto` |
//! |---|---|---|---|
//! | send the first byte | `idle` | `idle`, `grace` | `idle`, with an error |
//! | finish the first head, or the preface of HTTP/2 | `idle`, `grace` | `idle`, `grace` | HTTP/1: `idle`, `grace`; HTTP/2: `idle`, with an error |
//! | finish a later head | `idle` | `idle`, `grace` | the limits of the protocol in use |
//! | send the body of a request | `max_age`, `grace` | `max_age`, `grace` | the limits of the protocol in use |
//! | send the body of a request after the end of its response | `idle`, `grace` | `idle`, `grace` | the limits of the protocol in use |
//! | read a response | `max_age`, `grace` | `max_age`, `grace` | the limits of the protocol in use |
//! | answer the ping of a graceful shutdown | | `grace` | `grace` |
//!
//! If the graceful shutdown starts when a client has sent only half of a later HTTP/1 head, this client gets no response.
//!
//! hyper's `header_read_timeout` closes a connection with a slow head sooner, with an error. It needs a timer, for example a
//! [`WheelTimer`]. It also limits the time between two HTTP/1 requests, so it should be longer than `idle`.
//!
//! Without `max_age`, a client that stops reading a response keeps its connection, unless you set the write timeout of the
//! module `io`. To require a minimum speed for bodies, use the module `http` or `io`.
//!
//! # Upgrades
//!
//! After an upgrade, hyper no longer drives the HTTP/1 connection:
//!
//! * The connection ends with the reason [`Closed`](Reason::Closed).
//! * The connection no longer counts as open, and it has no limits.
//! * The handler has to limit and close the I/O, for example with a `tunnel` of the module `io`: see the recipe
//!   [CONNECT](https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/recipes.md#connect).
//! * The I/O of the upgrade is a [`CountedIo`]. A handler that downcasts the I/O must name this type.
//!
//! An HTTP/2 `CONNECT` stream, for example a WebSocket, stays part of its connection, but the `CONNECT` request is no longer
//! in flight once hyper has sent the response. A connection that has only such streams therefore counts as idle, even while
//! they are in use, and `idle` and `grace` cut it. Do not set `idle` for a server with such streams.
//!
//! # Cost
//!
//! Each connection has one sleep, for the earliest instant at which it may reach a limit, and requests do not touch this sleep.
//! A request allocates 24 bytes, and locks its connection's state when it begins and when hyper has taken its response. The
//! last request in flight then also reads the clock. Each write, flush and poll of the connection takes this lock too, and
//! each poll asks the sleep. All limits together take about 300 bytes of memory per connection.
//!
//! # A timer for hyper
//!
//! hyper's connection builders have a method `timer`, and hyper-util's client has `pool_timer`. These methods
//! take a [`hyper::rt::Timer`]. Pass a [`WheelTimer`] instead of hyper-util's `TokioTimer`:
//!
//! ```
//! use std::convert::Infallible;
//!
//! use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
//! use hyper_util::rt::TokioIo;
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//! use tokio_wheel::{Duration, Instant};
//! use tokio_wheel_util::hyper::WheelTimer;
//!
//! async fn hello(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
//!     Ok(Response::new("hello".to_owned()))
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> std::io::Result<()> {
//! let start = Instant::now();
//! let (mut client, server) = tokio::io::duplex(1_024);
//! client.write_all(b"GET / HTTP/1.1\r\nslow: ").await?; // The head never ends.
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

// The tests in `tests/hyper/stages.rs` check the table of slow clients.

mod connections;
mod counted_io;
mod drive;
mod ended;
mod event_polls;
mod recheck;
mod requests;
#[cfg(feature = "serve")]
mod serve;
mod server_limits;
mod timer;

pub use connections::{ConnectionGuard, Connections, OpenError};
pub use counted_io::CountedIo;
pub use drive::Drive;
pub use ended::{Counts, Ended, Reason};
pub use requests::{Counted, CountedBody, CountedData, CountedFuture};
#[cfg(feature = "serve")]
pub use serve::{Listener, Serve, ServeError, TapIo, serve};
pub use server_limits::Limits;
pub use timer::WheelTimer;

//! Limits for the connections of a [hyper] server, and timers for hyper itself.
//!
//! | task | type |
//! |---|---|
//! | Close idle and old connections, and shut a server down. | [`Connections`] |
//! | Run hyper's own timeouts on this crate's timer. | [`WheelTimer`] or [`Timer`](crate::Timer) |
//!
//! hyper keeps a connection open for as long as the client wants. A server with very many connections must close
//! idle and old connections. When it shuts down, it must close all of them. [`Connections`] does this and lets the
//! requests in flight finish.
//!
//! The server does three things for each connection. It opens a [`Lifetime`], wraps its service, and drives the
//! connection. This axum server speaks HTTP/1 and HTTP/2:
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
//!         let Ok(lifetime) = connections.open() else { continue }; // Drops the socket.
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
//! // When the process must end:
//! server.abort();
//! connections.shutdown().await; // Waits for the requests in flight, for 20 s at most.
//! assert_eq!(connections.counts().open(), 0);
//! # assert_eq!(connections.counts().shutdown(), 1);
//! # assert_eq!(client.read(&mut answer).await?, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # The limits
//!
//! | limit | closes a connection | does not close |
//! |---|---|---|
//! | [`idle`](Limits::idle) | that had no request in flight for this time | a connection with a slow request or a long response |
//! | [`max_age`](Limits::max_age) | that reaches this age, less a random [`jitter`](Limits::jitter) | |
//! | [`grace`](Limits::grace) | whose graceful shutdown takes longer than this time | a connection that ends sooner |
//! | hyper's `header_read_timeout` | of HTTP/1 whose next head is not complete after this time | a connection of HTTP/2 |
//!
//! A request is in flight from the end of its head until the body of its response ends. So a client is idle in these
//! cases: it sends nothing, it keeps the connection alive, or it never finishes a head.
//!
//! The limits are independent: each may be longer or shorter than the others. The maximum age lets a load balancer
//! spread clients again. One more limit, [`max_connections`](Limits::max_connections), closes no connection. If it is
//! reached, [`open`](Connections::open) fails.
//!
//! A limit or the shutdown of the server starts hyper's graceful shutdown of a connection:
//!
//! * Requests in flight get their responses.
//! * HTTP/1 sends `connection: close` with the response. It closes a connection without a request at once.
//! * HTTP/2 sends a GOAWAY frame. It accepts no more requests after the client answers a ping.
//!
//! A connection that does not end within the grace is *cut*: [`Drive`] drops it with its requests in flight.
//! [`Ended`] tells why a connection ended and whether it was cut. [`Counts`] has the totals.
//!
//! A limit on the time without bytes is different, because no byte moves while a handler works. Such a limit
//! must be longer than the longest request, and it keeps idle connections for that long.
//!
//! # Slow clients
//!
//! The table shows which limits close the connection of a slow client. Where it names two limits, the first limit
//! starts the graceful shutdown, and the second limit cuts the connection.
//!
//! | the client is slow | HTTP/1 | HTTP/2 | `auto` |
//! |---|---|---|---|
//! | to send the first byte | `idle` | `idle`, `grace` | `idle`, with an error |
//! | to finish the first head, or the preface of HTTP/2 | `idle`, `grace` | `idle`, `grace` | HTTP/1: `idle`, `grace`; HTTP/2: `idle`, with an error |
//! | to finish a later head | `idle` | `idle`, `grace` | like its protocol |
//! | to send the body of a request | `max_age`, `grace` | `max_age`, `grace` | like its protocol |
//! | to read a response | `max_age`, `grace` | `max_age`, `grace` | like its protocol |
//! | to read the end of a response from hyper's buffers | `idle`, `grace` | `idle`, `grace` | like its protocol |
//! | to answer the ping of a graceful shutdown | | `grace` | `grace` |
//!
//! The tests in `tests/hyper/stages.rs` check this table. A client that has sent half of a later HTTP/1 head when the
//! graceful shutdown starts gets no response.
//!
//! hyper's `header_read_timeout` ends a slow head sooner. It needs a timer, for example a [`WheelTimer`], and it ends
//! the connection with an error. It also limits the time between two requests of HTTP/1. So it should be longer than
//! `idle`.
//!
//! To limit the speed of bodies, use the layers of the module `http` or the streams of the module `io`.
//!
//! # Upgrades
//!
//! An upgrade ends an HTTP/1 connection for hyper. The connection has the reason [`Closed`](Reason::Closed), no longer
//! counts as open, and has no limits any more. From now on, the handler must limit and close the I/O.
//!
//! A `CONNECT` stream of HTTP/2, for example a WebSocket, stays within its connection. It does not count as a
//! request in flight after its response was sent. So `idle` and `grace` cut a connection that has only such streams, even if they are in use. Do
//! not set `idle` for a server of such streams.
//!
//! # Cost
//!
//! All connections of a server share one timer, and each connection has one entry in it. A request registers no
//! timer. It adds 1 to a count of its connection and later subtracts 1. The last request in flight also reads the
//! clock when it ends. Each poll of the connection checks the entry under the lock of a shard.
//!
//! [`set_pressure`](Connections::set_pressure) and [`shutdown`](Connections::shutdown) visit no list of connections.
//! They move the time of the shared timer forward. The driver then fires all entries whose deadlines have passed.
//!
//! The table shows what all limits together add to an HTTP/1 connection. The last column keeps the same limits by hand
//! on `tokio::time`, with two sleeps, a counter and a `watch` channel. Each time is a median with its 95% interval.
//!
//! | | `Connections` | by hand |
//! |---|---|---|
//! | bytes for a connection | 227 | 824 |
//! | processor time for a request, one thread | 91 ns (84 to 99) | 127 ns (123 to 131) |
//! | processor time for a request, two workers | 91 ns (54 to 114) | 116 ns (87 to 148) |
//!
//! `benches/examples/lifetime.rs` measured this on two cores of an AMD EPYC, over pipes in memory. A request without
//! limits takes 700 ns there, including its client.
//!
//! # A timer for hyper
//!
//! hyper's connection builders have a method `timer`, and hyper-util's client has `pool_timer`. Both take a
//! [`hyper::rt::Timer`]. Pass a [`WheelTimer`] or a [`Timer`](crate::Timer) in place of
//! hyper-util's `TokioTimer`:
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

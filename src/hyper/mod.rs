//! A connection's lifetime under [hyper], and a timer for hyper's connections.
//!
//! hyper drives a connection for as long as the client likes. A server of very many connections must end those that do
//! nothing, or that have been there for long, and must end all of them when it shuts down. None of that may cost a
//! request that is in flight.
//!
//! [`Connections`] is the handle of a server's connections, which have [`Limits`] in common. Each connection is opened, its
//! service is wrapped, and it is driven. Here is a whole server of axum, for HTTP/1 and HTTP/2:
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
//! connections.shutdown().await; // All requests have their answer.
//! assert_eq!(connections.counts().open(), 0);
//! # assert_eq!(connections.counts().shutdown(), 1);
//! # assert_eq!(client.read(&mut answer).await?, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # The limits
//!
//! | limit | ends a connection | not a connection |
//! |---|---|---|
//! | [`idle`](Limits::idle) | without a request in flight for so long: keep-alive, a client that says nothing, a head that never comes | whose request takes long, or whose answer streams for hours |
//! | [`max_age`](Limits::max_age) | of that age at most, so that a load balancer can spread clients anew | that is younger by more than the [`jitter`](Limits::jitter) |
//! | [`grace`](Limits::grace) | that was told to end, and has not ended after so long | that gets its answers by then |
//! | [`max_connections`](Limits::max_connections) | none: it refuses to [open](Connections::open) more | |
//! | hyper's `header_read_timeout` | whose head comes too slowly, the wait for its first byte included | of HTTP/2 |
//!
//! A connection is *told to end* by hyper's graceful shutdown, for each reason: requests in flight get their answers, and no
//! other is accepted. HTTP/2 sends a GOAWAY. HTTP/1 says `connection: close` in its last answer, or closes a connection
//! without a request in flight at once. When the grace is over, the connection is cut: it is dropped with all that is in
//! flight. [`Ended`] says why a connection has ended and whether it was cut, and [`Counts`] has the totals.
//!
//! Limits hide none of each other, whatever their order. An idle limit on the *bytes* of a connection is different: while a
//! handler works, no byte moves. Such a limit must be longer than the longest request, or it cuts that off. It then keeps
//! a connection that is idle for as long.
//!
//! # What a slow client runs into
//!
//! | the client is slow | HTTP/1 | HTTP/2 | `auto` |
//! |---|---|---|---|
//! | to send a first byte | `idle` | `idle`, then `grace` | `idle`, with an error |
//! | within its first head, or its HTTP/2 preface | `idle`, then `grace` | `idle`, then `grace` | as its protocol; within the preface `idle` |
//! | within a later head | `idle` | | `idle` |
//! | within the body of a request, or reading an answer | `max_age`, then `grace` | `max_age`, then `grace` | `max_age`, then `grace` |
//! | reading the end of an answer, which hyper has in its buffer | `idle`, then `grace` | `idle`, then `grace` | `idle`, then `grace` |
//! | to answer the ping of a graceful shutdown | | `grace` | `grace` |
//!
//! "Then" means that the first limit begins the graceful shutdown, and that the grace ends the connection. Set a
//! `header_read_timeout` as well, with a [`WheelTimer`], if heads must come sooner. It ends a connection with an error, and
//! also limits how long a connection of HTTP/1 may be idle. Limits of the bodies' pace are for a layer of the service.
//!
//! # Upgrades
//!
//! A connection of HTTP/1 that is upgraded ends for hyper: it has [closed](Reason::Closed), counts no longer as open, and has
//! left all limits. Its I/O belongs to the handler, which must limit and shut down what it does with it. A `CONNECT` stream of
//! HTTP/2 stays within its connection. Once its response is sent, it does not count as a request in flight.
//!
//! # What it costs
//!
//! Each connection has one entry in a timer that the connections have for themselves. A request sets no timer: it counts one
//! number up and down, which belongs to its connection, and reads the clock if no other is in flight at its end. The entry looks at
//! that when it fires. [`set_pressure`](Connections::set_pressure) and [`shutdown`](Connections::shutdown) have no list of
//! connections to go through. They move the time of that timer ahead, so that the entries concerned fire.
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

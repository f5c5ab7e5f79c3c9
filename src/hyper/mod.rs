//! A timer for the connections of [hyper].
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

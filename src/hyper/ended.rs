//! The end of a connection: its reason and its result.

use std::fmt;

/// Why a connection has ended, or why its graceful shutdown has begun.
///
/// # Examples
///
/// ```
/// use tokio_wheel::hyper::Reason;
///
/// assert_eq!(Reason::MaxAge.to_string(), "maximum age");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The client or the service closed the connection, the connection failed, or its I/O was upgraded.
    Closed,
    /// The connection had no request in flight for as long as [`Limits::idle`](super::Limits::idle) allows.
    Idle,
    /// The connection reached the age that [`Limits::max_age`](super::Limits::max_age) allows.
    MaxAge,
    /// The server began to [shut down](super::Connections::shutdown) its connections.
    Shutdown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::Idle => "idle",
            Self::MaxAge => "maximum age",
            Self::Shutdown => "shutdown",
        })
    }
}

/// The end of a connection, with its reason and its result.
///
/// A [`Drive`](super::Drive) resolves to this. `E` is the error type of the connection. hyper's connections have
/// [`hyper::Error`], and the connections of hyper-util's `auto` have a box.
///
/// # Examples
///
/// ```
/// use std::convert::Infallible;
///
/// use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
/// use hyper_util::rt::TokioIo;
/// use tokio_wheel::{hyper::{Connections, Limits, Reason}, Duration};
///
/// async fn hello(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
///     Ok(Response::new("hello".to_owned()))
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let connections = Connections::new(Limits::new().idle(Duration::from_secs(60)));
/// let (_client, server) = tokio::io::duplex(1_024);
///
/// let lifetime = connections.open().unwrap();
/// let service = lifetime.service(service_fn(hello));
/// let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service);
/// let ended = lifetime.drive(connection).await;
///
/// assert_eq!(ended.reason(), Reason::Idle);
/// assert!(!ended.is_cut());
/// assert!(ended.into_result().is_ok());
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the end may contain an error of the connection"]
pub struct Ended<E> {
    /// Why the connection ended, or why its graceful shutdown began.
    pub(super) reason: Reason,
    /// The number of requests that were in flight when the connection was cut, or `None` if it was not cut.
    pub(super) cut: Option<usize>,
    /// The result of the connection, or `Ok` if it was cut.
    pub(super) result: Result<(), E>,
}

impl<E> Ended<E> {
    /// Returns why the connection has ended.
    ///
    /// If a graceful shutdown came first, this is the reason for the shutdown.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns whether the connection was dropped because its [grace](super::Limits::grace) was over.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Returns how many requests were lost because the connection was [cut](Self::is_cut).
    ///
    /// These requests were in flight at that time. The number is 0 if the connection was not cut. An incomplete head
    /// does not count. The rest of a response in hyper's buffers does not count either.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.cut.unwrap_or(0)
    }

    /// Returns the error of the connection, if there is one.
    ///
    /// Log the error if the reason is [`Reason::Closed`]. With any other reason, the graceful shutdown itself may cause
    /// an error, and nothing is wrong:
    ///
    /// * A connection of hyper-util's `auto` may fail if the client has not sent the first bytes yet.
    /// * A connection of HTTP/2 may fail if the client closes it before it reads the server's last frames.
    #[must_use]
    pub fn error(&self) -> Option<&E> {
        self.result.as_ref().err()
    }

    /// Returns the result of the connection. The result is `Ok` if the connection was cut.
    ///
    /// # Errors
    ///
    /// Returns the error of the connection, like [`error`](Self::error).
    pub fn into_result(self) -> Result<(), E> {
        self.result
    }
}

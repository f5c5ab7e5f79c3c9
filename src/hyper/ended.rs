//! How a connection has ended.

use std::fmt;

/// Why a connection has ended, or was told to.
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
    /// The client or the service closed it, it failed, or its I/O was upgraded.
    Closed,
    /// No request was in flight for as long as [`Limits::idle`](super::Limits::idle) allows.
    Idle,
    /// It was as old as [`Limits::max_age`](super::Limits::max_age) allows.
    MaxAge,
    /// The server began to [shut down](super::Connections::shutdown).
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

/// How a connection has ended: what a [`Drive`](super::Drive) resolves to.
///
/// `E` is the error of the connection: [`hyper::Error`], or a box for hyper-util's `auto`.
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
#[must_use = "it has the error of the connection, if there is one"]
pub struct Ended<E> {
    pub(super) reason: Reason,
    /// How many requests were in flight when the connection was cut.
    pub(super) cut: Option<usize>,
    pub(super) result: Result<(), E>,
}

impl<E> Ended<E> {
    /// Returns why the connection has ended. If it was told to end, this is why.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns whether the connection was dropped because its [grace](super::Limits::grace) was over.
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Returns how many requests were in flight when the connection was [cut](Self::is_cut), and are
    /// lost. The number is 0 if it was not cut, or if only a head or the rest of an answer was under way.
    pub fn lost(&self) -> usize {
        self.cut.unwrap_or(0)
    }

    /// Returns the error of the connection, if there is one.
    ///
    /// Log it if the connection [closed](Reason::Closed) by itself. Two kinds of connections may fail because
    /// they were told to end, and nothing is wrong with them:
    ///
    /// * one of hyper-util's `auto`, if the client has not sent the first bytes yet
    /// * one of HTTP/2, if the client hangs up before it has read the server's last frames
    pub fn error(&self) -> Option<&E> {
        self.result.as_ref().err()
    }

    /// Returns what the connection has returned. If it was cut, this is `Ok`.
    ///
    /// # Errors
    ///
    /// Returns the error of the connection, as [`error`](Self::error) does.
    pub fn into_result(self) -> Result<(), E> {
        self.result
    }
}

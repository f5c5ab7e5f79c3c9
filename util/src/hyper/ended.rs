//! How connections end: reasons, results and counts.

use std::fmt;

/// The reason for the end of a connection. If the connection was shut down gracefully, the value tells why
/// the graceful shutdown began.
///
/// # Examples
///
/// ```
/// use tokio_wheel_util::hyper::Reason;
///
/// assert_eq!(format!("{:?}", Reason::MaxAge), "MaxAge");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// One of these events ended the connection:
    ///
    /// * The client or the service closed the connection.
    /// * The connection failed.
    /// * The I/O of the connection was upgraded.
    Closed,
    /// The connection was without a request in flight for the time that
    /// [`Limits::idle`](super::Limits::idle) allows.
    Idle,
    /// The connection reached the age that [`Limits::max_age`](super::Limits::max_age) allows.
    MaxAge,
    /// The head of the first request took longer than the `header_timeout` of a [server](super) allows.
    Header,
    /// The server began to [shut down](super::Connections::shutdown) its connections, or the runtime of the
    /// connection shuts down. In the second case, the connection is [cut](Ended::is_cut) or dropped.
    Shutdown,
}

/// The end of a connection, with its reason and its result.
///
/// A [`Drive`](super::Drive) resolves to an `Ended`. `E` is the error type of the connection. The connections
/// of hyper have the error [`hyper::Error`]. The connections of hyper-util's `auto` have a boxed error.
///
/// # Examples
///
/// ```
/// use std::convert::Infallible;
///
/// use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
/// use hyper_util::rt::TokioIo;
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::hyper::{Connections, Limits, Reason};
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
/// let guard = connections.open().unwrap();
/// let ended = guard
///     .serve(TokioIo::new(server), service_fn(hello), |io, service| {
///         http1::Builder::new().serve_connection(io, service)
///     })
///     .await;
///
/// assert_eq!(ended.reason(), Reason::Idle);
/// assert!(!ended.is_cut());
/// assert!(ended.into_result().is_ok());
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the end may contain an error of the connection"]
pub struct Ended<E> {
    /// The reason for the end of the connection, or for its graceful shutdown.
    reason: Reason,
    /// The number of requests in flight when the connection was cut. It is `None` if the connection was not
    /// cut.
    cut: Option<usize>,
    /// The result of the connection. It is `Ok` if the connection was cut.
    result: Result<(), E>,
}

impl<E> Ended<E> {
    pub(super) fn new(reason: Reason, cut: Option<usize>, result: Result<(), E>) -> Self {
        Self {
            reason,
            cut,
            result,
        }
    }

    /// Returns why the connection has ended.
    ///
    /// If the connection was shut down gracefully, the value tells why the graceful shutdown began.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns whether the connection was dropped: at the end of its [grace](super::Limits::grace), because its runtime
    /// shuts down, or because its first head of HTTP/1 was late.
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Returns how many requests were lost because the connection was [cut](Self::is_cut).
    ///
    /// These requests were in flight when the connection was cut: they had no response, or the connection had not
    /// written the whole response to its I/O. The number is 0 if the connection was not cut.
    ///
    /// The number is exact on HTTP/1. On HTTP/2 it is an upper bound: if the client did not read as fast as the server wrote,
    /// it may include responses that were written since the connection last had nothing more to write. These requests are
    /// not counted:
    ///
    /// * a request with an incomplete head
    /// * a request whose response is written, even if another task still reads the body of the request
    pub fn lost(&self) -> usize {
        self.cut.unwrap_or(0)
    }

    /// Returns the error of the connection, if there is one.
    ///
    /// Log the error if the reason is [`Reason::Closed`]. With any other reason, you can ignore the error.
    /// The graceful shutdown itself may cause an error in these cases:
    ///
    /// * A connection of hyper-util's `auto` may fail if the client has not sent its first bytes yet.
    /// * A connection of HTTP/2 may fail if the client closes the connection without reading the server's
    ///   last frames.
    pub fn error(&self) -> Option<&E> {
        self.result.as_ref().err()
    }

    /// Returns the result of the connection. The result is `Ok` if the connection was cut.
    ///
    /// # Errors
    ///
    /// Returns the error of the connection, if there is one.
    pub fn into_result(self) -> Result<(), E> {
        self.result
    }
}

/// A number for each reason.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct ByReason(pub(super) [u64; 5]);

impl fmt::Debug for ByReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = [
            Reason::Closed,
            Reason::Idle,
            Reason::MaxAge,
            Reason::Header,
            Reason::Shutdown,
        ];
        let counts = reasons.map(|reason| (reason, self.0[reason as usize]));
        f.debug_map().entries(counts).finish()
    }
}

/// The numbers of a server's open and ended connections.
///
/// [`Connections::counts`](super::Connections::counts) returns these numbers. All numbers except
/// [`open`](Self::open) only grow.
///
/// # Examples
///
/// ```
/// use tokio_wheel_util::hyper::{Connections, Limits, Reason};
///
/// let connections = Connections::new(Limits::new());
/// let first = connections.open();
/// assert_eq!(connections.counts().open(), 1);
/// drop(first);
/// let counts = connections.counts();
/// assert_eq!((counts.open(), counts.dropped(), counts.ended(Reason::Idle)), (0, 1, 0));
/// assert_eq!(
///     format!("{counts:?}"),
///     "Counts { open: 0, ended: {Closed: 0, Idle: 0, MaxAge: 0, Header: 0, Shutdown: 0}, dropped: 1, cut: 0 }",
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub(super) open: u64,
    pub(super) ended: ByReason,
    pub(super) dropped: u64,
    pub(super) cut: u64,
}

impl Counts {
    /// Returns how many connections are open now.
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Returns how many connections have ended for this reason.
    pub fn ended(&self, reason: Reason) -> u64 {
        self.ended.0[reason as usize]
    }

    /// Returns how many connections were dropped before they had ended.
    ///
    /// The number includes each [`ConnectionGuard`](super::ConnectionGuard) that was dropped without a call of
    /// `serve`, and each [`Drive`](super::Drive) that was dropped before it was ready.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns how many connections were [cut](Ended::is_cut). Each of them has also [ended](Self::ended) for a
    /// reason.
    pub fn cut(&self) -> u64 {
        self.cut
    }
}

//! How connections end: reasons, results and counts.

use std::collections::BTreeMap;

/// Why a connection ended. If it was shut down gracefully, this is why the graceful shutdown began.
///
/// # Examples
///
/// ```
/// use tokio_wheel_util::hyper::Reason;
///
/// assert_eq!(format!("{:?}", Reason::MaxAge), "MaxAge");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The connection ended by itself:
    ///
    /// * The client or the service closed it.
    /// * It failed.
    /// * It was upgraded.
    Closed,
    /// The connection was without a request in flight for the time that
    /// [`Limits::idle`](super::Limits::idle) allows.
    Idle,
    /// The connection reached the age that [`Limits::max_age`](super::Limits::max_age) allows.
    MaxAge,
    /// The head of the first request took longer than the `header_timeout` of a [server](super) allows.
    Header,
    /// The server began to [shut down](super::Connections::shutdown) its connections, or the runtime of the
    /// connection was shutting down. In the second case, the connection is [cut](Ended::is_cut) or dropped.
    Shutdown,
}

/// How a connection ended: the reason and the result.
///
/// A [`Drive`](super::Drive) resolves to an `Ended`. `E` is the error type of the connection: [`hyper::Error`] for hyper's
/// own connections, and a boxed error for those of hyper-util's `auto`.
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

    /// Returns why the connection ended.
    ///
    /// If the connection was shut down gracefully, this is why the graceful shutdown began.
    ///
    /// # Examples
    ///
    /// A client waits for a handler that hangs:
    ///
    /// ```
    /// # use std::{convert::Infallible, future::pending};
    /// #
    /// # use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
    /// # use hyper_util::rt::TokioIo;
    /// # use tokio::io::AsyncWriteExt as _;
    /// # use tokio_wheel::Duration;
    /// # use tokio_wheel_util::hyper::{Connections, Limits, Reason};
    /// #
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # async fn hangs(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    /// #     pending().await
    /// # }
    /// # let (mut client, server) = tokio::io::duplex(1_024);
    /// # client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    /// let connections = Connections::new(Limits::new().max_age(Duration::from_secs(60)));
    /// # let guard = connections.open().unwrap();
    /// # let connect = |io, service| http1::Builder::new().serve_connection(io, service);
    /// # let ended = guard.serve(TokioIo::new(server), service_fn(hangs), connect).await;
    /// // `ended` is the end of its connection.
    /// assert_eq!(ended.reason(), Reason::MaxAge);
    /// # }
    /// ```
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns whether the connection was dropped: at the end of its [grace](super::Limits::grace), because its runtime was
    /// shutting down, or because its first HTTP/1 head was late.
    ///
    /// # Examples
    ///
    /// A client waits for a handler that hangs:
    ///
    /// ```
    /// # use std::{convert::Infallible, future::pending};
    /// #
    /// # use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
    /// # use hyper_util::rt::TokioIo;
    /// # use tokio::io::AsyncWriteExt as _;
    /// # use tokio_wheel::Duration;
    /// # use tokio_wheel_util::hyper::{Connections, Limits, Reason};
    /// #
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # async fn hangs(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    /// #     pending().await
    /// # }
    /// # let (mut client, server) = tokio::io::duplex(1_024);
    /// # client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    /// let connections = Connections::new(Limits::new().max_age(Duration::from_secs(60)));
    /// # let guard = connections.open().unwrap();
    /// # let connect = |io, service| http1::Builder::new().serve_connection(io, service);
    /// # let ended = guard.serve(TokioIo::new(server), service_fn(hangs), connect).await;
    /// // `ended` is the end of its connection, 30 s after the graceful shutdown began.
    /// assert!(ended.is_cut());
    /// # }
    /// ```
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Returns how many requests were lost because the connection was [cut](Self::is_cut), or 0 if it was not cut.
    ///
    /// These requests were in flight: they had no response, or the connection had not written the whole response to its I/O.
    /// Requests with an incomplete head are not counted. Neither are requests whose response is written, even if another task
    /// still reads the body of the request.
    ///
    /// The number is exact on HTTP/1. On HTTP/2 it is an upper bound: if the client did not read as fast as the server wrote, it
    /// may include responses that were written since the connection last had nothing more to write.
    ///
    /// # Examples
    ///
    /// A client waits for a handler that hangs:
    ///
    /// ```
    /// # use std::{convert::Infallible, future::pending};
    /// #
    /// # use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
    /// # use hyper_util::rt::TokioIo;
    /// # use tokio::io::AsyncWriteExt as _;
    /// # use tokio_wheel::Duration;
    /// # use tokio_wheel_util::hyper::{Connections, Limits, Reason};
    /// #
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # async fn hangs(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    /// #     pending().await
    /// # }
    /// # let (mut client, server) = tokio::io::duplex(1_024);
    /// # client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    /// let connections = Connections::new(Limits::new().max_age(Duration::from_secs(60)));
    /// # let guard = connections.open().unwrap();
    /// # let connect = |io, service| http1::Builder::new().serve_connection(io, service);
    /// # let ended = guard.serve(TokioIo::new(server), service_fn(hangs), connect).await;
    /// // `ended` is the end of its connection.
    /// assert_eq!(ended.lost(), 1);
    /// # }
    /// ```
    pub fn lost(&self) -> usize {
        self.cut.unwrap_or(0)
    }

    /// Returns the error of the connection, if there is one.
    ///
    /// Log the error if the reason is [`Reason::Closed`]. With any other reason, you can ignore it, because the graceful shutdown
    /// itself may cause an error:
    ///
    /// * A connection of hyper-util's `auto` may fail if the client has not sent its first bytes yet.
    /// * An HTTP/2 connection may fail if the client closes it without reading the server's last frames.
    ///
    /// # Examples
    ///
    /// A client waits for a handler that hangs:
    ///
    /// ```
    /// # use std::{convert::Infallible, future::pending};
    /// #
    /// # use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
    /// # use hyper_util::rt::TokioIo;
    /// # use tokio::io::AsyncWriteExt as _;
    /// # use tokio_wheel::Duration;
    /// # use tokio_wheel_util::hyper::{Connections, Limits, Reason};
    /// #
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # async fn hangs(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    /// #     pending().await
    /// # }
    /// # let (mut client, server) = tokio::io::duplex(1_024);
    /// # client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    /// let connections = Connections::new(Limits::new().max_age(Duration::from_secs(60)));
    /// # let guard = connections.open().unwrap();
    /// # let connect = |io, service| http1::Builder::new().serve_connection(io, service);
    /// # let ended = guard.serve(TokioIo::new(server), service_fn(hangs), connect).await;
    /// // `ended` is the end of its connection, which was cut and has not failed.
    /// assert!(ended.error().is_none());
    /// # }
    /// ```
    pub fn error(&self) -> Option<&E> {
        self.result.as_ref().err()
    }

    /// Returns the result of the connection, which is `Ok` if the connection was cut.
    ///
    /// # Errors
    ///
    /// Returns the error of the connection, if there is one.
    ///
    /// # Examples
    ///
    /// A client waits for a handler that hangs:
    ///
    /// ```
    /// # use std::{convert::Infallible, future::pending};
    /// #
    /// # use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
    /// # use hyper_util::rt::TokioIo;
    /// # use tokio::io::AsyncWriteExt as _;
    /// # use tokio_wheel::Duration;
    /// # use tokio_wheel_util::hyper::{Connections, Limits, Reason};
    /// #
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # async fn hangs(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    /// #     pending().await
    /// # }
    /// # let (mut client, server) = tokio::io::duplex(1_024);
    /// # client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    /// let connections = Connections::new(Limits::new().max_age(Duration::from_secs(60)));
    /// # let guard = connections.open().unwrap();
    /// # let connect = |io, service| http1::Builder::new().serve_connection(io, service);
    /// # let ended = guard.serve(TokioIo::new(server), service_fn(hangs), connect).await;
    /// // `ended` is the end of its connection, which was cut and has not failed.
    /// assert!(ended.into_result().is_ok());
    /// # }
    /// ```
    pub fn into_result(self) -> Result<(), E> {
        self.result
    }
}

/// Counts of a server's open and ended connections, returned by [`Connections::counts`](super::Connections::counts).
///
/// All counts except [`open`](Self::open) only grow.
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
///     "Counts { open: 0, ended: {}, dropped: 1, cut: 0 }",
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub(super) open: u64,
    pub(super) ended: BTreeMap<Reason, u64>,
    pub(super) dropped: u64,
    pub(super) cut: u64,
}

impl Counts {
    /// Returns how many connections are open now.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// let connections = Connections::new(Limits::new());
    /// let guard = connections.open().unwrap();
    /// assert_eq!(connections.counts().open(), 1);
    /// drop(guard);
    /// assert_eq!(connections.counts().open(), 0);
    /// ```
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Returns how many connections ended for this reason.
    ///
    /// # Examples
    ///
    /// A client waits for a handler that hangs:
    ///
    /// ```
    /// # use std::{convert::Infallible, future::pending};
    /// #
    /// # use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
    /// # use hyper_util::rt::TokioIo;
    /// # use tokio::io::AsyncWriteExt as _;
    /// # use tokio_wheel::Duration;
    /// # use tokio_wheel_util::hyper::{Connections, Limits, Reason};
    /// #
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # async fn hangs(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    /// #     pending().await
    /// # }
    /// # let (mut client, server) = tokio::io::duplex(1_024);
    /// # client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    /// let connections = Connections::new(Limits::new().max_age(Duration::from_secs(60)));
    /// # let guard = connections.open().unwrap();
    /// # let connect = |io, service| http1::Builder::new().serve_connection(io, service);
    /// # let ended = guard.serve(TokioIo::new(server), service_fn(hangs), connect).await;
    /// assert_eq!(connections.counts().ended(Reason::MaxAge), 1);
    /// # }
    /// ```
    pub fn ended(&self, reason: Reason) -> u64 {
        self.ended.get(&reason).copied().unwrap_or(0)
    }

    /// Returns how many connections were dropped before they ended.
    ///
    /// These are the [`ConnectionGuard`](super::ConnectionGuard)s that were dropped without a call of `serve`, and the
    /// [`Drive`](super::Drive)s that were dropped before they were ready.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// let connections = Connections::new(Limits::new());
    /// let guard = connections.open().unwrap();
    /// drop(guard);
    /// assert_eq!(connections.counts().dropped(), 1);
    /// ```
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns how many connections were [cut](Ended::is_cut). Each of them is also counted as [ended](Self::ended).
    ///
    /// # Examples
    ///
    /// A client waits for a handler that hangs:
    ///
    /// ```
    /// # use std::{convert::Infallible, future::pending};
    /// #
    /// # use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
    /// # use hyper_util::rt::TokioIo;
    /// # use tokio::io::AsyncWriteExt as _;
    /// # use tokio_wheel::Duration;
    /// # use tokio_wheel_util::hyper::{Connections, Limits, Reason};
    /// #
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # async fn hangs(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    /// #     pending().await
    /// # }
    /// # let (mut client, server) = tokio::io::duplex(1_024);
    /// # client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    /// let connections = Connections::new(Limits::new().max_age(Duration::from_secs(60)));
    /// # let guard = connections.open().unwrap();
    /// # let connect = |io, service| http1::Builder::new().serve_connection(io, service);
    /// # let ended = guard.serve(TokioIo::new(server), service_fn(hangs), connect).await;
    /// assert_eq!(connections.counts().cut(), 1);
    /// # }
    /// ```
    pub fn cut(&self) -> u64 {
        self.cut
    }
}

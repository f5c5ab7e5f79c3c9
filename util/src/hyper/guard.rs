//! One connection of a server, from its opening to its end.

use std::{fmt, sync::Arc, time::Duration};

use hyper_util::server::graceful::GracefulConnection;

use super::{
    drive::Drive,
    ended::Reason,
    requests::{Counted, Requests},
    shared::Shared,
};

/// An open connection of a server.
///
/// [`Connections::open`](super::Connections::open) returns a guard. The connection counts as open until the guard
/// is dropped, or until the [`Drive`] that [`serve`](Self::serve) returns is ready or dropped.
///
/// # Examples
///
/// The example of [`Ended`](super::Ended) serves one connection. The example of the [module](super) shows a
/// server.
#[must_use = "the connection no longer counts as open when it is dropped"]
pub struct ConnectionGuard {
    pub(super) shared: Arc<Shared>,
    pub(super) requests: Arc<Requests>,
    /// The maximum age of the connection.
    pub(super) max_age: Duration,
    /// Whether the end of the connection was not counted yet.
    is_open: bool,
}

impl ConnectionGuard {
    pub(super) fn new(shared: Arc<Shared>, max_age: Duration) -> Self {
        Self {
            shared,
            requests: Arc::new(Requests::new()),
            max_age,
            is_open: true,
        }
    }

    /// Counts the end of the connection.
    pub(super) fn end(&mut self, reason: Reason, is_cut: bool) {
        self.is_open = false;
        self.shared.close(Some((reason, is_cut)));
    }

    /// Returns a future that serves a connection and enforces the limits of its server.
    ///
    /// `connect` makes the connection of hyper. Its argument is `service` with a count of the requests in flight.
    /// Put no other service around this argument, because a request counts as in flight only after it has reached
    /// the argument.
    ///
    /// All connections of hyper and of hyper-util's `auto` implement [`GracefulConnection`]. The only
    /// exception is hyper's own HTTP/1 connection with upgrades. For upgrades of HTTP/1, use `auto` with
    /// `http1_only` and `serve_connection_with_upgrades`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use hyper::{body::Incoming, server::conn::http1, service::service_fn, Request, Response};
    /// use hyper_util::rt::TokioIo;
    /// use tokio::net::TcpStream;
    /// use tokio_wheel_util::hyper::ConnectionGuard;
    ///
    /// async fn hello(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    ///     Ok(Response::new("hello".to_owned()))
    /// }
    ///
    /// async fn serve(guard: ConnectionGuard, socket: TcpStream) -> hyper::Result<()> {
    ///     let connect = |service| http1::Builder::new().serve_connection(TokioIo::new(socket), service);
    ///     guard.serve(service_fn(hello), connect).await.into_result()
    /// }
    /// ```
    pub fn serve<S, C: GracefulConnection>(
        self,
        service: S,
        connect: impl FnOnce(Counted<S>) -> C,
    ) -> Drive<C> {
        let requests = self.requests.clone();
        let connection = connect(Counted { service, requests });
        Drive::new(self, connection)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if self.is_open {
            self.shared.close(None);
        }
    }
}

impl fmt::Debug for ConnectionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (in_flight, _) = self.requests.in_flight();
        f.debug_struct("ConnectionGuard")
            .field("age", &self.requests.opened().elapsed())
            .field("in_flight", &in_flight)
            .finish_non_exhaustive()
    }
}

//! A connection that is open but not driven yet.

use hyper_util::server::graceful::GracefulConnection;

use super::{counted::Counted, drive::Drive, slot::Slot};

/// An open connection of a server, before it is driven.
///
/// [`Connections::open`](super::Connections::open) returns a lifetime. The connection counts as open until
/// the lifetime is dropped. First wrap the service with [`service`](Self::service). Then pass the connection
/// to [`drive`](Self::drive). If you do not wrap the service, no request ever counts as in flight.
///
/// # Examples
///
/// The example of [`Ended`](super::Ended) shows all steps for one connection. The example of the
/// [module](super) shows a server.
#[derive(Debug)]
#[must_use = "the connection no longer counts as open when it is dropped"]
pub struct Lifetime {
    slot: Slot,
}

impl Lifetime {
    pub(super) fn new(slot: Slot) -> Self {
        Self { slot }
    }

    /// Wraps the service of the connection. The returned service counts the requests in flight.
    ///
    /// Put no other service around the returned service. A request counts as in flight only after it reaches
    /// the returned service.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use hyper::{body::Incoming, service::service_fn, Request, Response};
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// async fn hello(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    ///     Ok(Response::new("hello".to_owned()))
    /// }
    ///
    /// let lifetime = Connections::new(Limits::new()).open().unwrap();
    /// let service = lifetime.service(service_fn(hello));
    /// ```
    pub fn service<S>(&self, service: S) -> Counted<S> {
        Counted::new(service, self.slot.requests.clone())
    }

    /// Returns a future that drives the connection and enforces the limits of its server.
    ///
    /// All connections of hyper and of hyper-util's `auto` implement [`GracefulConnection`]. The only
    /// exception is hyper's own HTTP/1 connection with upgrades. For upgrades of HTTP/1, use `auto` with
    /// `http1_only` and `serve_connection_with_upgrades`.
    ///
    /// # Examples
    ///
    /// The example of [`Ended`](super::Ended) drives a connection.
    pub fn drive<C: GracefulConnection>(self, connection: C) -> Drive<C> {
        Drive::new(self.slot, connection)
    }
}

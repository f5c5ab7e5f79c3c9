//! One connection, from its opening to its end.

use hyper_util::server::graceful::GracefulConnection;

use super::{counted::Counted, drive::Drive, slot::Slot};

/// A connection that was [opened](super::Connections::open), and counts as open until this is dropped.
///
/// Wrap the service of the connection in [`service`](Self::service), then the connection itself in
/// [`drive`](Self::drive). A connection whose service is not wrapped has no request in flight, ever.
///
/// # Examples
///
/// See [`Ended`](super::Ended) for all steps, and the [module](super) for a server.
#[derive(Debug)]
#[must_use = "the connection no longer counts as open when it is dropped"]
pub struct Lifetime {
    slot: Slot,
}

impl Lifetime {
    pub(super) fn new(slot: Slot) -> Self {
        Self { slot }
    }

    /// Wraps the service of the connection, so that its requests are counted while they are in flight.
    ///
    /// Make the result the outermost service: what a request waits for outside of it does not count.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use hyper::{body::Incoming, service::service_fn, Request, Response};
    /// use tokio_wheel::hyper::{Connections, Limits};
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

    /// Drives the connection under the limits of its server.
    ///
    /// All connections of hyper and of hyper-util's `auto` are
    /// [`GracefulConnection`]s, except for hyper's own HTTP/1 connection with upgrades. Use `auto` with
    /// `http1_only` and `serve_connection_with_upgrades` in its place.
    ///
    /// # Examples
    ///
    /// See [`Ended`](super::Ended).
    pub fn drive<C: GracefulConnection>(self, connection: C) -> Drive<C> {
        Drive::new(self.slot, connection)
    }
}

//! One connection, from its opening to its end.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use hyper_util::server::graceful::GracefulConnection;

use super::{
    counted::Counted, drive::Drive, ended::Ended, error::OpenError, requests::Requests,
    shared::Shared,
};

/// A connection that was [opened](super::Connections::open), and counts as open until this is dropped.
///
/// Wrap the service of the connection in [`service`](Self::service), then the connection itself in
/// [`drive`](Self::drive). A connection whose service is not wrapped has no request in flight, ever.
///
/// # Examples
///
/// See [`Ended`] for all steps, and the [module](super) for a server.
#[must_use = "the connection is closed when it is dropped"]
pub struct Lifetime {
    pub(super) shared: Arc<Shared>,
    pub(super) requests: Arc<Requests>,
    /// The age that the connection may reach, if that is limited.
    pub(super) max_age: Option<Duration>,
    /// Whether its end is counted.
    has_ended: bool,
}

impl Lifetime {
    pub(super) fn open(shared: &Arc<Shared>) -> Result<Self, OpenError> {
        let max_age = shared.open()?;
        Ok(Self {
            shared: shared.clone(),
            requests: Arc::new(Requests::new()),
            max_age,
            has_ended: false,
        })
    }

    /// Wraps the service of the connection, so that its requests are counted while they are in flight.
    ///
    /// The service may be wrapped before or after other services. What a request waits for outside of it does not count.
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
        Counted::new(service, self.requests.clone())
    }

    /// Drives the connection under the limits of its server.
    ///
    /// All connections of hyper and of hyper-util's `auto` are
    /// [`GracefulConnection`]s, except for hyper's own HTTP/1 connection with upgrades. Use `auto` with
    /// `http1_only` and `serve_connection_with_upgrades` in its place.
    ///
    /// # Examples
    ///
    /// See [`Ended`].
    pub fn drive<C: GracefulConnection>(self, connection: C) -> Drive<C> {
        Drive::new(self, connection)
    }

    /// Counts the end.
    pub(super) fn end<E>(&mut self, ended: &Ended<E>) {
        self.has_ended = true;
        self.shared.close(Some(ended));
    }
}

impl Drop for Lifetime {
    fn drop(&mut self) {
        if !self.has_ended {
            self.shared.close::<Infallible>(None);
        }
    }
}

impl fmt::Debug for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (in_flight, _) = self.requests.in_flight();
        f.debug_struct("Lifetime")
            .field("age", &self.requests.opened().elapsed())
            .field("in_flight", &in_flight)
            .finish_non_exhaustive()
    }
}

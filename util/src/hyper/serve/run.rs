//! The future of a server, and the task of each connection.

use std::{
    error::Error,
    future::{Future, IntoFuture, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use ::hyper::{
    Request, Response,
    body::{Body, Incoming},
    service::{Service as _, service_fn},
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
    time::Instant,
};
use tokio_wheel::{Timer, timeout};
use tower_service::Service;

use super::{Listener, Serve, Settings, accept::accept, error::ServeError};
use crate::{
    hyper::{ConnectionGuard, Connections, Limits, Reason},
    limit::saturating_add,
};

type BoxError = Box<dyn Error + Send + Sync>;

impl<L, S, H, F, Io, T, B> IntoFuture for Serve<L, S, H>
where
    L: Listener,
    S: Clone + Send + 'static,
    H: FnOnce(L::Io, S) -> F + Clone + Send + 'static,
    F: Future<Output = io::Result<(Io, T)>> + Send + 'static,
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    T::Future: Send,
    T::Error: Into<BoxError>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    /// Always `Ok`, as with `axum::serve`.
    type Output = io::Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            // Without time, each connection would panic alone, and the server would serve nobody.
            drop(Timer::current());
            let settings = Arc::new(self.settings);
            let connections = (self.connections).unwrap_or_else(|| Connections::new(Limits::new()));
            // It owns the tasks, so no task outlives the server.
            let mut tasks = JoinSet::new();
            let mut stop = pin!(either(self.shutdown, has_shut_down(&connections)));
            loop {
                let next = accept(&mut self.listener, &connections, &settings.report);
                let mut next = pin!(next);
                let next = poll_fn(|cx| {
                    while let Poll::Ready(Some(_)) = tasks.poll_join_next(cx) {}
                    if stop.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(None);
                    }
                    next.as_mut().poll(cx).map(Some)
                });
                let Some((io, address, guard)) = next.await else {
                    break;
                };
                let (handshake, service) = (self.handshake.clone(), self.service.clone());
                // The task calls the closure, because the closure may panic.
                let prepare = async move { handshake(io, service).await };
                tasks.spawn(connection(guard, prepare, address, settings.clone()));
            }
            drop(self.listener);
            // The first poll begins the shutdown.
            let mut shutdown = pin!(connections.shutdown());
            let _ = poll_fn(|cx| Poll::Ready(shutdown.as_mut().poll(cx))).await;
            while tasks.join_next().await.is_some() {}
            Ok(())
        })
    }
}

/// Serves a connection after its handshake.
async fn connection<Io, T, B, A>(
    guard: ConnectionGuard,
    handshake: impl Future<Output = io::Result<(Io, T)>>,
    address: A,
    settings: Arc<Settings<A>>,
) where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    T::Future: Send,
    T::Error: Into<BoxError>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let report = &settings.report;
    let handshake = async { timeout(settings.handshake_timeout, handshake).await? };
    let (io, service) = match either(handshake, has_shut_down(&guard.connections)).await {
        Some(Ok(prepared)) => prepared,
        Some(Err(error)) => {
            report(ServeError::Handshake(error));
            return;
        }
        None => return,
    };
    let head = saturating_add(Instant::now(), settings.header_timeout);
    guard.requests.limit_first_head(head);
    let extensions = (settings.connect_info)(address);
    let service = TowerToHyperService::new(service);
    let service = service_fn(move |mut request: Request<_>| {
        request.extensions_mut().extend(extensions.clone());
        service.call(request)
    });
    let connect = |io, service| (settings.builder).serve_connection_with_upgrades(io, service);
    let ended = guard.serve(TokioIo::new(io), service, connect).await;
    // After a graceful shutdown, an error means nothing: see `Ended::error`.
    if let (Reason::Closed, Err(error)) = (ended.reason(), ended.into_result()) {
        report(ServeError::Connection(error));
    }
}

/// Waits for the first of two futures. Returns the output of `first`, or `None` if `other` was ready first.
async fn either<F: Future>(first: F, other: impl Future<Output = ()>) -> Option<F::Output> {
    let (mut first, mut other) = (pin!(first), pin!(other));
    poll_fn(|cx| match first.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => other.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// Waits until the shutdown of the connections begins.
async fn has_shut_down(connections: &Connections) {
    if let Some(shutdown) = connections.next_shutdown() {
        shutdown.await;
    }
}

//! Tests `tokio_wheel_util::serve`. Only `sockets.rs` uses real sockets and a real clock.

#![cfg(feature = "serve")]

mod accept;
mod limits;
mod panics;
mod shutdown;
mod sockets;
#[cfg(feature = "io")]
mod upgrades;

use std::{
    future::{Future, IntoFuture, pending},
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use axum::{Router, extract::ConnectInfo, routing::get};
use hyper::{Request, Response, body::Incoming};
use rustix::io::Errno;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Handle},
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
};
use tokio_wheel::{Duration, Instant, sleep};
use tokio_wheel_util::{
    hyper::{Connections, Limits, Listener, Reason, Serve, ServeError},
    serve,
};

use crate::{
    hyper::server::{
        AnyBody, Auto1Upgrades, Auto2Upgrades, Client, Protocol, answer, each_that, send,
    },
    support::{
        current_thread, does_not_hang, ms, multi_thread,
        panics::{assert_panics, panic_of},
        paused, poll_once, secs, settle,
    },
};

/// Runs a test once for each protocol. Each run has its own runtime with a paused clock.
#[track_caller]
fn each(body: impl AsyncFn(Protocol)) {
    each_that(|it| [Auto1Upgrades, Auto2Upgrades].contains(&it), body);
}

/// A listener for streams in memory. It returns what the test sends.
struct Memory(mpsc::UnboundedReceiver<io::Result<DuplexStream>>);

impl Listener for Memory {
    type Io = DuplexStream;
    type Addr = &'static str;

    fn local_addr(&self) -> io::Result<&'static str> {
        Ok("memory")
    }

    async fn accept(&mut self) -> io::Result<(DuplexStream, &'static str)> {
        match self.0.recv().await {
            Some(accepted) => accepted.map(|io| (io, "client")),
            None => pending().await,
        }
    }
}

/// A clonable service, without a box.
type App = tower::util::ServiceFn<fn(Request<Incoming>) -> Answer>;
type Answer = std::pin::Pin<Box<dyn Future<Output = io::Result<Response<AnyBody>>> + Send>>;

fn app() -> App {
    tower::service_fn(|request| Box::pin(answer(request)))
}

struct Server {
    accept: mpsc::UnboundedSender<io::Result<DuplexStream>>,
    connections: Connections,
    stop: oneshot::Sender<()>,
    errors: Arc<Mutex<Vec<String>>>,
    running: JoinHandle<io::Result<()>>,
}

impl Server {
    fn new(limits: Limits) -> Self {
        Self::with(&Connections::new(limits), |server| server)
    }

    /// Starts a server with the settings of `configure`.
    fn with<S>(
        connections: &Connections,
        configure: impl FnOnce(
            Serve<
                Memory,
                App,
                fn(DuplexStream, App) -> std::future::Ready<io::Result<(DuplexStream, App)>>,
            >,
        ) -> S,
    ) -> Self
    where
        S: IntoFuture<Output = io::Result<()>, IntoFuture: Send + 'static>,
    {
        let (accept, accepted) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let errors = Arc::<Mutex<Vec<String>>>::default();
        let report = {
            let errors = errors.clone();
            move |error: ServeError| errors.lock().unwrap().push(error.to_string())
        };
        let server = serve(Memory(accepted), app())
            .connections(connections)
            .with_graceful_shutdown(async {
                // The test that drops `stop` shuts the server down in another way.
                if stopped.await.is_err() {
                    pending().await
                }
            })
            .on_error(report);
        let server = configure(server).into_future();
        Self {
            accept,
            connections: connections.clone(),
            stop,
            errors,
            running: tokio::spawn(server),
        }
    }

    /// Opens a connection for a client that writes bytes by hand.
    fn connect(&self) -> DuplexStream {
        // This is as large as a socket's buffers.
        let (client, server) = duplex(65_536);
        self.accept.send(Ok(server)).unwrap();
        client
    }

    async fn client(&self, protocol: Protocol) -> Client {
        Client::new(protocol, self.connect()).await
    }

    /// Shuts the server down. Returns how many connections were cut, and how long the shutdown took.
    async fn shutdown(self) -> (u64, Duration) {
        let (start, before) = (Instant::now(), self.connections.counts());
        self.stop.send(()).unwrap();
        self.running.await.unwrap().unwrap();
        let after = self.connections.counts();
        assert_eq!(after.open(), 0);
        (after.cut() - before.cut(), start.elapsed())
    }

    fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap().clone()
    }
}

/// Waits until the server closes the connection. Returns when, counted from `start`.
async fn closed(client: &mut DuplexStream, start: Instant) -> Duration {
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest).await;
    start.elapsed()
}

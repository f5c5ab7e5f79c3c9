//! A server for a tower service: its settings. `accept.rs` accepts the clients, and `run.rs` serves them.

mod accept;
mod error;
mod run;

use std::{
    fmt,
    future::{Future, Ready, pending, ready},
    io,
    pin::Pin,
    time::Duration,
};

use ::hyper::http::Extensions;
use hyper_util::{rt::TokioExecutor, server::conn::auto};

use self::error::Report;
pub use self::{
    accept::{Listener, TapIo},
    error::ServeError,
};
use super::{Connections, Limits, WheelTimer};

/// Serves the clients of `listener` with `service`, and enforces connection limits.
///
/// `service` is an axum `Router`, tonic's `Routes`, or any other tower service that hyper can call. Each connection
/// may use HTTP/1, with upgrades, or HTTP/2, and has its own task and its own clone of `service`.
///
/// In an axum program, replace `axum::serve` with this function, and then set [`limits`](Serve::limits).
/// [`local_addr`](Serve::local_addr), [`with_graceful_shutdown`](Serve::with_graceful_shutdown) and the `?` after `await`
/// stay. Two things differ:
///
/// | with `axum::serve` | here |
/// |---|---|
/// | `app.into_make_service_with_connect_info::<SocketAddr>()` | `app`, and [`with_connect_info(ConnectInfo)`](Serve::with_connect_info) on the server |
/// | `use axum::serve::ListenerExt`, for `tap_io` | `use tokio_wheel_util::hyper::Listener`: see [`Listener::tap_io`] |
///
/// axum 0.9, which is not released yet, is going to limit the age of connections. It has none of the other limits, and no
/// limit for the shutdown.
///
/// # Limits
///
/// | limit | default | closes a connection |
/// |---|---|---|
/// | [`handshake`](Serve::handshake) | no handshake | whose handshake, such as TLS, takes too long |
/// | [`header_timeout`](Serve::header_timeout) | 30 s | that takes too long to send the head of its first request |
/// | [`Limits::idle`](super::Limits::idle) | none | that has no request in flight, even if it is slowly sending its next head |
/// | [`Limits::max_age`](super::Limits::max_age) | none | that is too old |
/// | [`Limits::grace`](super::Limits::grace) | 30 s | whose graceful shutdown takes too long |
///
/// Set at least `idle` and `max_age`. Without them, connections stay open whose clients have vanished or have stopped
/// reading a response. To limit the time of requests, use the layers of the module `http`.
///
/// When [`max_connections`](super::Limits::max_connections) connections are open, the server accepts one more client and
/// then stops accepting. That client, and the clients in the kernel's queue, wait until a connection ends.
///
/// Several servers, for example on two ports, can use the same [`connections`](Serve::connections). They then share the
/// limits, the counts and the shutdown.
///
/// # Shutdown
///
/// [`with_graceful_shutdown`](Serve::with_graceful_shutdown) takes a future, for example a signal. When the future is
/// ready, or when [`Connections::shutdown`] is called, the server does the following:
///
/// 1. It drops `listener`. The kernel refuses new clients, and resets the clients in its queue.
/// 2. It drops the connections whose handshake has not finished, and the client that waits for room.
/// 3. It shuts down the other connections gracefully: see the [module](super#the-limits). Requests in flight have until the
///    end of the grace to get their responses.
/// 4. It cuts the remaining connections. [`Counts::cut`](super::Counts::cut) counts them.
///
/// When the server returns, the tasks of its connections have ended. Upgraded connections are not included: they belong to
/// your handlers. On HTTP/2, the requests of a connection that was cut have their own tasks, which end as soon as the
/// runtime polls them.
///
/// # Errors
///
/// The server ends only at its shutdown, and always returns `Ok`. Its output is an [`io::Result`] only so that it can replace
/// `axum::serve`. To learn of errors, pass a closure to [`on_error`](Serve::on_error). It is not called for panics.
///
/// * If `accept` fails because the client has gone, the server accepts the next client at once. After any other error, for
///   example when the process has run out of file descriptors, it waits for 10 ms.
/// * If a service or a handshake panics, its connection ends. On HTTP/2, only the request ends.
///
/// # Cancel safety
///
/// Dropping the future drops `listener` and cuts all connections of this server. Their requests in flight are lost.
///
/// # Panics
///
/// * Panics if the future is polled outside a runtime, or on a runtime without time enabled.
/// * Panics if `listener`, the shutdown future or a clone of `service` panics, or if the closure of `on_error` panics when
///   `accept` fails. If the closure panics for another error, only that connection ends.
///
/// # Examples
///
/// ```
/// use axum::{routing::get, Router};
/// use tokio::{net::TcpListener, sync::oneshot};
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::{hyper::Limits, serve};
/// # use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
///
/// # #[tokio::main]
/// # async fn main() -> std::io::Result<()> {
/// let app = Router::new().route("/", get(|| async { "hello" }));
/// let limits = Limits::new()
///     .idle(Duration::from_secs(60))
///     .max_age(Duration::from_secs(600))
///     .grace(Duration::from_secs(20))
///     .max_connections(10_000);
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// # let address = listener.local_addr()?;
/// let (stop, stopped) = oneshot::channel::<()>();
///
/// let server = serve(listener, app)
///     .limits(limits)
///     .header_timeout(Duration::from_secs(10))
///     .with_graceful_shutdown(async { drop(stopped.await) })
///     .on_error(|error| eprintln!("{error}"));
/// let server = tokio::spawn(server.into_future());
/// # let mut client = tokio::net::TcpStream::connect(address).await?;
/// # client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await?;
/// # let mut answer = [0; 1_024];
/// # let length = client.read(&mut answer).await?;
/// # assert!(answer[..length].ends_with(b"hello"));
///
/// // When the process must end:
/// drop(stop);
/// server.await?
/// # }
/// ```
pub fn serve<L: Listener, S>(listener: L, service: S) -> Serve<L, S> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Without the `None`, the timer would turn on hyper's default limit, which would also limit idle connections.
    builder
        .http1()
        .timer(WheelTimer::new())
        .header_read_timeout(None);
    builder.http2().timer(WheelTimer::new());
    Serve {
        listener,
        service,
        handshake: |io, service| ready(Ok((io, service))),
        connections: None,
        shutdown: Box::pin(pending()),
        settings: Settings {
            builder,
            handshake_timeout: Duration::MAX,
            header_timeout: Duration::from_secs(30),
            report: Box::new(drop),
            connect_info: Box::new(|_| Extensions::new()),
        },
    }
}

/// A handshake that does nothing.
type Plain<Io, S> = fn(Io, S) -> Ready<io::Result<(Io, S)>>;

/// A server with its settings, returned by [`serve`]. Await it to run it.
///
/// The future returns `Ok` after the shutdown. `H` is the closure of the [`handshake`](Self::handshake), if there is one.
#[must_use = "a server does nothing unless you `.await` it"]
pub struct Serve<L: Listener, S, H = Plain<<L as Listener>::Io, S>> {
    listener: L,
    service: S,
    handshake: H,
    /// `None` if neither `limits` nor `connections` was called.
    connections: Option<Connections>,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
    settings: Settings<L::Addr>,
}

/// What the tasks of the connections share.
struct Settings<A> {
    builder: auto::Builder<TokioExecutor>,
    handshake_timeout: Duration,
    header_timeout: Duration,
    report: Report,
    /// Returns the extensions of all requests of a client.
    connect_info: Box<dyn Fn(A) -> Extensions + Send + Sync>,
}

impl<L: Listener, S, H> Serve<L, S, H> {
    /// Sets the connection limits. The default is [`Limits::new`].
    ///
    /// # Panics
    ///
    /// Panics if `limits` or [`connections`](Self::connections) was called before.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::{hyper::Limits, serve};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    /// let app = axum::Router::new();
    /// serve(listener, app)
    ///     .limits(Limits::new().idle(Duration::from_secs(60)).max_connections(10_000))
    ///     .await
    /// # }
    /// ```
    #[track_caller]
    pub fn limits(self, limits: Limits) -> Self {
        self.connections(&Connections::new(limits))
    }

    /// Counts the connections in `connections`, and enforces their limits.
    ///
    /// The handle shows the [counts](Connections::counts) while the server runs, and can
    /// [shut](Connections::shutdown) the server down. Other servers may use the same handle.
    ///
    /// # Panics
    ///
    /// Panics if [`limits`](Self::limits) or `connections` was called before.
    ///
    /// # Examples
    ///
    /// Two ports share 10,000 connections:
    ///
    /// ```
    /// use tokio::net::TcpListener;
    /// use tokio_wheel_util::{hyper::{Connections, Limits}, serve};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let connections = Connections::new(Limits::new().max_connections(10_000));
    /// for address in ["127.0.0.1:0"; 2] {
    ///     let listener = TcpListener::bind(address).await?;
    ///     let server = serve(listener, axum::Router::new()).connections(&connections);
    ///     tokio::spawn(server.into_future());
    /// }
    /// assert_eq!(connections.counts().open(), 0);
    /// connections.shutdown().await; // Both servers end.
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn connections(mut self, connections: &Connections) -> Self {
        assert!(
            self.connections.is_none(),
            "a server takes either `limits` or `connections`, once: give the limits to `Connections::new`"
        );
        self.connections = Some(connections.clone());
        self
    }

    /// Returns the address on which the server accepts clients.
    ///
    /// # Errors
    ///
    /// Fails if [`Listener::local_addr`] fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::net::TcpListener;
    /// use tokio_wheel_util::serve;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let app: axum::Router = axum::Router::new();
    /// let server = serve(TcpListener::bind("127.0.0.1:0").await?, app);
    /// assert_ne!(server.local_addr()?.port(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> io::Result<L::Addr> {
        self.listener.local_addr()
    }

    /// Tells handlers the address of their client, by an extension of each request.
    ///
    /// The extension is what `make` returns for the address. With axum, `make` is `ConnectInfo`, or a closure that returns a type
    /// of your own. A second call replaces the first.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::SocketAddr;
    ///
    /// use axum::{extract::ConnectInfo, routing::get, Router};
    /// use tokio::net::TcpListener;
    /// use tokio_wheel_util::serve;
    /// # use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    ///
    /// async fn who(ConnectInfo(client): ConnectInfo<SocketAddr>) -> String {
    ///     client.to_string()
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let app = Router::new().route("/", get(who));
    /// let server = serve(TcpListener::bind("127.0.0.1:0").await?, app).with_connect_info(ConnectInfo);
    /// # let mut client = tokio::net::TcpStream::connect(server.local_addr()?).await?;
    /// # let server = server.with_graceful_shutdown(async move {
    /// #     client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await.unwrap();
    /// #     let mut answer = String::new();
    /// #     client.read_to_string(&mut answer).await.unwrap();
    /// #     assert!(answer.ends_with(&client.local_addr().unwrap().to_string()), "{answer}");
    /// # });
    /// server.await
    /// # }
    /// ```
    pub fn with_connect_info<T>(
        mut self,
        make: impl Fn(L::Addr) -> T + Send + Sync + 'static,
    ) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.settings.connect_info = Box::new(move |address| {
            let mut extensions = Extensions::new();
            extensions.insert(make(address));
            extensions
        });
        self
    }

    /// Shuts the server down when `signal` is ready.
    ///
    /// Without this call, only [`Connections::shutdown`] of its [`connections`](Self::connections) shuts the server down.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    /// let app = axum::Router::new();
    /// tokio_wheel_util::serve(listener, app)
    ///     .with_graceful_shutdown(async { tokio::signal::ctrl_c().await.unwrap() })
    ///     .await
    /// # }
    /// ```
    pub fn with_graceful_shutdown(
        mut self,
        signal: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        self.shutdown = Box::pin(signal);
        self
    }

    /// Limits how long a new connection may take until the head of its first request is complete. The default is 30 s.
    ///
    /// The time starts after the handshake. When it is over, an HTTP/1 connection is cut, so a client cannot hold it by sending
    /// nothing, or by sending its head byte by byte. An HTTP/2 connection is shut down gracefully: a client that connects before
    /// it has a request gets a GOAWAY frame, and connects again. Both count as [`Reason::Header`](super::Reason::Header).
    /// [`Limits::idle`](super::Limits::idle) limits the time for each later head.
    ///
    /// # Examples
    ///
    /// This client connects and sends nothing:
    ///
    /// ```
    /// use tokio::{io::AsyncReadExt as _, net::{TcpListener, TcpStream}};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::{hyper::{Connections, Limits, Reason}, serve};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let connections = Connections::new(Limits::new());
    /// let server = serve(TcpListener::bind("127.0.0.1:0").await?, axum::Router::new())
    ///     .connections(&connections)
    ///     .header_timeout(Duration::from_millis(50));
    /// let address = server.local_addr()?;
    /// tokio::spawn(server.into_future());
    ///
    /// let mut client = TcpStream::connect(address).await?;
    /// assert_eq!(client.read(&mut [0]).await?, 0, "the server has closed the connection");
    /// connections.shutdown().await;
    /// assert_eq!(connections.counts().ended(Reason::Header), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn header_timeout(mut self, limit: Duration) -> Self {
        self.settings.header_timeout = limit;
        self
    }

    /// Prepares each connection with `prepare`, for example a TLS handshake, within `limit`.
    ///
    /// The connection's task calls `prepare` with what the listener has accepted and a clone of the service. `prepare` returns
    /// the stream and the service of the connection. It can do a TLS handshake, wrap the stream in limits of the module `io`, or
    /// pass the result of the handshake to the service. If it fails, the connection ends.
    ///
    /// # Examples
    ///
    /// The server closes a connection whose client stops reading. This is also the place to await a TLS acceptor:
    ///
    /// ```no_run
    /// use tokio::net::{TcpListener, TcpStream};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::{io::{Limits, TimeoutStream}, serve};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:3000").await?;
    /// let limits = Limits::new().write_timeout(Duration::from_secs(30));
    /// serve(listener, axum::Router::new())
    ///     .handshake(Duration::from_secs(10), move |socket: TcpStream, app| async move {
    ///         let socket = TimeoutStream::with_limits(socket, limits);
    ///         // let stream = acceptor.accept(socket).await?;
    ///         Ok((socket, app))
    ///     })
    ///     .await
    /// # }
    /// ```
    pub fn handshake<G, F, Io, T>(self, limit: Duration, prepare: G) -> Serve<L, S, G>
    where
        G: FnOnce(L::Io, S) -> F + Clone + Send + 'static,
        F: Future<Output = io::Result<(Io, T)>> + Send + 'static,
    {
        Serve {
            listener: self.listener,
            service: self.service,
            handshake: prepare,
            connections: self.connections,
            shutdown: self.shutdown,
            settings: Settings {
                handshake_timeout: limit,
                ..self.settings
            },
        }
    }

    /// Changes hyper's settings with `configure`.
    ///
    /// Both protocols already have a [`WheelTimer`]. Do not enable `pipeline_flush`: see the [module](super#the-limits).
    ///
    /// # Examples
    ///
    /// On HTTP/2, this server notices when a client vanishes during a long response:
    ///
    /// ```
    /// use tokio::net::TcpListener;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::serve;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let app = axum::Router::new();
    /// let server = serve(listener, app).http(|builder| {
    ///     builder.http2().keep_alive_interval(Duration::from_secs(20));
    /// });
    /// # server.with_graceful_shutdown(async {}).await
    /// # }
    /// ```
    pub fn http(mut self, configure: impl FnOnce(&mut auto::Builder<TokioExecutor>)) -> Self {
        configure(&mut self.settings.builder);
        self
    }

    /// Calls `report` with each error. By default, the server ignores errors.
    ///
    /// While the process has no file descriptors left, `accept` fails 100 times per second. `report` runs within the tasks of the
    /// server, so it must not block.
    ///
    /// # Examples
    ///
    /// A handshake fails:
    ///
    /// ```
    /// use tokio::{net::{TcpListener, TcpStream}, sync::mpsc};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::{hyper::ServeError, serve};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let (send, mut errors) = mpsc::unbounded_channel();
    /// let server = serve(TcpListener::bind("127.0.0.1:0").await?, axum::Router::new())
    ///     .handshake(Duration::from_secs(10), |socket: TcpStream, app| async move {
    ///         if true {
    ///             return Err(std::io::Error::other("not TLS"));
    ///         }
    ///         Ok((socket, app))
    ///     })
    ///     .on_error(move |error| drop(send.send(error)));
    /// let address = server.local_addr()?;
    /// tokio::spawn(server.into_future());
    ///
    /// let _client = TcpStream::connect(address).await?;
    /// let error = errors.recv().await.unwrap();
    /// assert!(matches!(error, ServeError::Handshake(_)));
    /// assert_eq!(error.to_string(), "a handshake failed: not TLS");
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_error(mut self, report: impl Fn(ServeError) + Send + Sync + 'static) -> Self {
        self.settings.report = Box::new(report);
        self
    }
}

impl<L: Listener + fmt::Debug, S, H> fmt::Debug for Serve<L, S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("listener", &self.listener)
            .field("connections", &self.connections)
            .field("header_timeout", &self.settings.header_timeout)
            .finish_non_exhaustive()
    }
}

//! Listeners, and what a server does while it cannot accept.

use std::{
    future::{Future, pending},
    io::{self, ErrorKind},
    net::SocketAddr,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::coop::consume_budget,
};
use tokio_wheel::sleep;

use super::error::{Report, ServeError};
use crate::{
    hyper::{ConnectionGuard, Connections, OpenError},
    limit::notified,
};

/// The pause after a failed `accept`. So a server without descriptors makes 100 system calls per second.
const PAUSE: Duration = Duration::from_millis(10);

/// Accepts the connections of a server, for [`serve`](super::serve). It has the shape of axum's trait, but `accept` may fail.
///
/// # Examples
///
/// A listener that serves each client over a stream in memory:
///
/// ```
/// use std::io;
///
/// use tokio::{io::DuplexStream, sync::mpsc};
/// use tokio_wheel_util::hyper::Listener;
///
/// struct InMemory(mpsc::Receiver<DuplexStream>);
///
/// impl Listener for InMemory {
///     type Io = DuplexStream;
///     type Addr = ();
///
///     async fn accept(&mut self) -> io::Result<(DuplexStream, ())> {
///         match self.0.recv().await {
///             Some(client) => Ok((client, ())),
///             // No client can connect anymore. The server waits for its shutdown.
///             None => std::future::pending().await,
///         }
///     }
///
///     fn local_addr(&self) -> io::Result<()> {
///         Ok(())
///     }
/// }
/// ```
pub trait Listener: Send + 'static {
    /// The stream of bytes of a connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The address of a client.
    type Addr: Send + 'static;

    /// Waits for the next client, and returns its stream and its address.
    ///
    /// The server drops the future only when it shuts down. An error does not end the server: see
    /// [`serve`](super::serve#errors).
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Io, Self::Addr)>> + Send;

    /// Returns the address on which this listener accepts clients.
    ///
    /// # Errors
    ///
    /// Fails if the operating system does not tell.
    fn local_addr(&self) -> io::Result<Self::Addr>;

    /// Calls `tap` with each accepted stream, for example to set options of its socket.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::net::TcpListener;
    /// use tokio_wheel_util::{hyper::Listener as _, serve};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?.tap_io(|socket| {
    ///     let _ = socket.set_nodelay(false);
    /// });
    /// let server = serve(listener, axum::Router::new());
    /// assert!(server.local_addr()?.ip().is_loopback());
    /// # server.with_graceful_shutdown(async {}).await
    /// # }
    /// ```
    fn tap_io<F>(self, tap: F) -> TapIo<Self, F>
    where
        Self: Sized,
        F: FnMut(&mut Self::Io) + Send + 'static,
    {
        let listener = self;
        TapIo { listener, tap }
    }
}

/// A listener that [`Listener::tap_io`] returns.
#[derive(Debug)]
pub struct TapIo<L, F> {
    listener: L,
    tap: F,
}

impl<L: Listener, F: FnMut(&mut L::Io) + Send + 'static> Listener for TapIo<L, F> {
    type Io = L::Io;
    type Addr = L::Addr;

    async fn accept(&mut self) -> io::Result<(L::Io, L::Addr)> {
        let (mut io, address) = self.listener.accept().await?;
        (self.tap)(&mut io);
        Ok((io, address))
    }

    fn local_addr(&self) -> io::Result<L::Addr> {
        self.listener.local_addr()
    }
}

/// Sets `TCP_NODELAY`, because HTTP/2 sends small frames.
impl Listener for TcpListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = TcpListener::accept(self).await?;
        // If this fails, small frames leave later.
        let _ = socket.set_nodelay(true);
        Ok((socket, address))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        TcpListener::local_addr(self)
    }
}

#[cfg(unix)]
impl Listener for tokio::net::UnixListener {
    type Io = tokio::net::UnixStream;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> io::Result<(Self::Io, Self::Addr)> {
        tokio::net::UnixListener::accept(self).await
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        tokio::net::UnixListener::local_addr(self)
    }
}

/// Waits for the next client, and for room for it.
pub(super) async fn accept<L: Listener>(
    listener: &mut L,
    connections: &Connections,
    report: &Report,
) -> (L::Io, L::Addr, ConnectionGuard) {
    loop {
        // The listener may always be ready, and need not use the budget.
        consume_budget().await;
        match listener.accept().await {
            Ok((io, address)) => return (io, address, open(connections).await),
            Err(error) => {
                let is_of_client = matches!(
                    error.kind(),
                    ErrorKind::ConnectionAborted
                        | ErrorKind::ConnectionRefused
                        | ErrorKind::ConnectionReset
                );
                report(ServeError::Accept(error));
                if !is_of_client {
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Opens a connection as soon as the limit of connections allows.
async fn open(connections: &Connections) -> ConnectionGuard {
    loop {
        let ended = connections.next_end();
        match connections.open() {
            Ok(guard) => return guard,
            // The server learns of the shutdown by itself.
            Err(OpenError::Shutdown) => pending().await,
            Err(OpenError::Full { .. }) => notified(ended).await,
        }
    }
}

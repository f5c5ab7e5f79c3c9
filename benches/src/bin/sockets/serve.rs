//! The code that the servers share.

use std::{future::Future, io, net::SocketAddr, process};

use anyhow::Context as _;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::{self, Runtime},
};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 4_096;

/// Creates a runtime like a server's.
pub(crate) fn runtime(workers: u8) -> io::Result<Runtime> {
    runtime::Builder::new_multi_thread()
        .worker_threads(workers.into())
        .enable_all()
        .build()
}

/// Listens on an address. Must be called within a runtime.
pub(crate) fn listen(addr: SocketAddr) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = match addr {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| format!("cannot listen on {addr}"))
}

/// Accepts connections on a runtime, and ends the process if that fails.
pub(crate) fn spawn(
    runtime: &Runtime,
    accept: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) {
    runtime.spawn(async {
        if let Err(error) = accept.await {
            eprintln!("Error: {error:#}");
            process::exit(1);
        }
    });
}

/// Accepts connections, and spawns a task for each connection.
pub(crate) async fn accept<Fut>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> Fut,
) -> anyhow::Result<()>
where
    // The server ignores a client that closes its connection.
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    loop {
        let (socket, _) = listener.accept().await.context("cannot accept")?;
        socket.set_nodelay(true)?;
        tokio::spawn(serve(socket));
    }
}

//! What the servers have in common.

use std::{future::Future, io, net::SocketAddr};

use anyhow::Context as _;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::{self, Runtime},
};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 4_096;

/// Returns a runtime as a server has it.
pub(crate) fn runtime(workers: u8) -> io::Result<Runtime> {
    runtime::Builder::new_multi_thread()
        .worker_threads(workers.into())
        .enable_all()
        .build()
}

/// Listens. Needs a runtime.
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

/// Gives each connection to a task of its own.
pub(crate) async fn accept<Fut>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> Fut,
) -> anyhow::Result<()>
where
    // A client that hangs up is no matter of the server's.
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    loop {
        let (socket, _) = listener.accept().await.context("cannot accept")?;
        socket.set_nodelay(true)?;
        tokio::spawn(serve(socket));
    }
}

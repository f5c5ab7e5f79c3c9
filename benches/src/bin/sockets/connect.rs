//! Connects very many clients at a time. They use several addresses, because one address has too
//! few ports.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::Context as _;
use tokio::{
    net::{TcpSocket, TcpStream},
    runtime,
    task::JoinSet,
    time::timeout,
};

/// How many clients are connecting at a time. The backlog of a server is larger.
pub(crate) const CONNECTING: usize = 256;

/// How long to try a connection before giving up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server's address, and the clients' addresses.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server's address.
    #[arg(long)]
    pub(crate) server: SocketAddr,
    /// How many connections to open.
    #[arg(long)]
    pub(crate) connections: u64,
    /// How many client addresses to use, beginning with 127.0.0.2.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=250))]
    pub(crate) addresses: u8,
}

impl Args {
    /// Opens the connections. The sockets are non-blocking and belong to no runtime.
    pub(crate) fn connect(&self) -> anyhow::Result<Vec<std::net::TcpStream>> {
        runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(self.connect_all())
    }

    async fn connect_all(&self) -> anyhow::Result<Vec<std::net::TcpStream>> {
        let mut streams = Vec::with_capacity(self.connections as usize);
        let mut connecting = JoinSet::new();
        for i in 0..self.connections {
            if connecting.len() == CONNECTING {
                streams.extend(connecting.join_next().await.transpose()?.transpose()?);
            }
            let (server, from) = (self.server, address(i, self.addresses));
            connecting.spawn(async move { anyhow::Ok(connect(server, from).await?.into_std()?) });
        }
        while let Some(stream) = connecting.join_next().await {
            streams.push(stream??);
        }
        Ok(streams)
    }
}

/// Returns the client address of the `i`th connection.
pub(crate) fn address(i: u64, addresses: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 2 + (i % u64::from(addresses)) as u8)
}

/// Opens a connection.
pub(crate) async fn connect(server: SocketAddr, from: Ipv4Addr) -> anyhow::Result<TcpStream> {
    let connect = async {
        let socket = TcpSocket::new_v4()?;
        // Closes the socket without a waiting state. Otherwise the next round would lack the ports.
        socket.set_zero_linger()?;
        socket.set_nodelay(true)?;
        socket.bind((from, 0).into())?;
        timeout(PATIENCE, socket.connect(server)).await?
    };
    connect
        .await
        .with_context(|| format!("cannot connect from {from} to {server}"))
}

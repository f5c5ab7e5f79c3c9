//! How clients connect: very many at a time, from several addresses, as one address has too few ports.

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

/// How many connections are being made at a time: less than may wait for a server to accept them.
pub(crate) const CONNECTING: usize = 256;

/// When to give up on a connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the clients connect to, and from where.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server's address.
    #[arg(long)]
    pub(crate) server: SocketAddr,
    /// How many connections.
    #[arg(long)]
    pub(crate) connections: u64,
    /// From how many addresses, 127.0.0.2 and those after it.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=250))]
    pub(crate) addresses: u8,
}

impl Args {
    /// Makes the connections. No runtime knows of them afterwards; they do not block.
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

/// Returns the address from which the `i`th connection is made.
pub(crate) fn address(i: u64, addresses: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 2 + (i % u64::from(addresses)) as u8)
}

/// Makes a connection.
pub(crate) async fn connect(server: SocketAddr, from: Ipv4Addr) -> anyhow::Result<TcpStream> {
    let connect = async {
        let socket = TcpSocket::new_v4()?;
        // Closed without a trace: ports that linger would be missing in the next round.
        socket.set_zero_linger()?;
        socket.set_nodelay(true)?;
        socket.bind((from, 0).into())?;
        timeout(PATIENCE, socket.connect(server)).await?
    };
    connect
        .await
        .with_context(|| format!("cannot connect from {from} to {server}"))
}

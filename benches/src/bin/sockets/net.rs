//! The sockets of servers and clients, the frames that `storm` sends over them, and the clock that all
//! processes share.

use std::{
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr, TcpStream as StdStream},
    process, thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    time::{ClockId, clock_gettime},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    net::{TcpSocket, TcpStream},
    runtime::{self, Runtime},
};

/// How many connections may wait to be accepted. A client beyond that tries again a second later.
const BACKLOG: u32 = 4_096;

/// How many client addresses there are, because one address has too few ports.
const ADDRESSES: u64 = 8;

const RESERVE: u64 = 64;

pub(crate) const MS: u64 = 1_000_000;

/// Raises the limit on open files as far as the process may, and checks that it and its children
/// may have so many connections, of which some are active.
pub(crate) fn afford(connections: u64, active: u64) -> anyhow::Result<()> {
    ensure!(
        connections > active,
        "--connections is {connections}, but must be more than {active}"
    );
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).context("cannot raise RLIMIT_NOFILE")?;
    let (files, needed) = (maximum.unwrap_or(u64::MAX), connections + RESERVE);
    ensure!(
        files >= needed,
        "RLIMIT_NOFILE is {files}: raise it with `ulimit -n {needed}`, or lower --connections"
    );
    Ok(())
}

/// Listens on a free port, and spawns a task for each connection. A failure ends the process.
pub(crate) fn accept<Fut>(
    runtime: &Runtime,
    serve: impl Fn(TcpStream) -> Fut + Send + 'static,
) -> anyhow::Result<SocketAddr>
where
    // The server ignores a client that closes its connection.
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let entered = runtime.enter();
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    drop(entered);
    let address = listener.local_addr()?;
    runtime.spawn(async move {
        loop {
            let accepted = listener.accept().await;
            let (socket, _) = accepted.unwrap_or_else(|error| {
                eprintln!("Error: cannot accept: {error:#}");
                process::exit(1)
            });
            let _ = socket.set_nodelay(true);
            tokio::spawn(serve(socket));
        }
    });
    Ok(address)
}

pub(crate) fn connect(server: SocketAddr, connections: u64) -> anyhow::Result<Vec<StdStream>> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let one = async |from| {
        let socket = TcpSocket::new_v4()?;
        // Closes the socket without a waiting state. Otherwise the next round would lack the ports.
        socket.set_zero_linger()?;
        socket.set_nodelay(true)?;
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(server).await?.into_std()
    };
    let connect = |i| {
        let from = Ipv4Addr::new(127, 0, 0, 2 + (i % ADDRESSES) as u8).into();
        let connected = runtime.block_on(one(from));
        connected.with_context(|| format!("cannot connect from {from} to {server}"))
    };
    (0..connections).map(connect).collect()
}

/// The length of a frame in bytes, and how many bytes a server reads at most at a time.
pub(crate) const LENGTH: usize = 16;
pub(crate) const BUFFER: usize = 32 * LENGTH;

#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    pub(crate) word: u64,
}

impl Frame {
    pub(crate) fn to_bytes(self) -> [u8; LENGTH] {
        (u128::from(self.word) << 64 | u128::from(self.number)).to_le_bytes()
    }

    pub(crate) async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut bytes = [0; LENGTH];
        reader.read_exact(&mut bytes).await?;
        Ok(Self::from_bytes(bytes))
    }

    pub(crate) fn from_bytes(bytes: [u8; LENGTH]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self {
            number: both as u64,
            word: (both >> 64) as u64,
        }
    }
}

/// Returns the time of the machine's monotonic clock, in nanoseconds. All processes read the same
/// time from it, so a process can tell another process when something must happen.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn until(at: u64) -> Duration {
    Duration::from_nanos(at.saturating_sub(now()))
}

pub(crate) fn wait_until(at: u64) {
    thread::sleep(until(at));
}

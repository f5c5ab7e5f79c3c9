//! The sockets of servers and clients, the frames that `storm` and `saturated` send over them, and
//! the clock that all processes share.

use std::{
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    process,
    sync::LazyLock,
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    time::{ClockId, clock_gettime},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::{self, Runtime},
    time::{Instant, timeout},
};

/// How many worker threads a server has.
pub(crate) const WORKERS: usize = 2;

/// How many clients are connecting at a time. The backlog of a server is larger.
const CONNECTING: usize = 256;
const BACKLOG: u32 = 4_096;

/// How many client addresses there are, because one address has too few ports.
const ADDRESSES: u64 = 8;

/// How long to try a connection before giving up.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many files a process has open beside its connections.
const RESERVE: u64 = 64;

/// The number of nanoseconds in a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Raises the limit on open files as far as the process may. Returns the limit.
pub(crate) fn raise_files() -> anyhow::Result<u64> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )
    .context("cannot raise RLIMIT_NOFILE")?;
    Ok(maximum.unwrap_or(u64::MAX))
}

/// Returns how many of the `wanted` connections the process may have. Prints a message if it may
/// not have all of them.
pub(crate) fn afford(wanted: u64) -> anyhow::Result<u64> {
    let files = raise_files()?;
    let affordable = files.saturating_sub(RESERVE).min(wanted);
    let needed = wanted + RESERVE;
    ensure!(
        affordable > 0,
        "RLIMIT_NOFILE is {files}: raise it with `ulimit -n {needed}`"
    );
    if affordable < wanted {
        eprintln!("RLIMIT_NOFILE is {files}, less than {needed}: continuing with {affordable}");
    }
    Ok(affordable)
}

/// Listens on a free port of this machine, and spawns a task for each connection. A failure to
/// accept ends the process.
pub(crate) fn accept<Fut>(
    runtime: &Runtime,
    serve: impl Fn(TcpStream) -> Fut + Send + 'static,
) -> anyhow::Result<SocketAddr>
where
    // The server ignores a client that closes its connection.
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let _entered = runtime.enter();
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let listener: TcpListener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    runtime.spawn(async move {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    let _ = socket.set_nodelay(true);
                    tokio::spawn(serve(socket));
                }
                Err(error) => {
                    eprintln!("Error: cannot accept: {error:#}");
                    process::exit(1);
                }
            }
        }
    });
    Ok(address)
}

/// Opens connections, and prepares each of them.
pub(crate) async fn connect<T, Fut>(
    server: SocketAddr,
    connections: u64,
    prepare: impl Fn(TcpStream) -> Fut,
) -> anyhow::Result<Vec<T>>
where
    Fut: Future<Output = anyhow::Result<T>>,
{
    let one = async |i: u64| prepare(connect_one(server, i % ADDRESSES).await?).await;
    stream::iter(0..connections)
        .map(one)
        .buffered(CONNECTING)
        .try_collect()
        .await
}

/// Opens connections that belong to no runtime.
pub(crate) fn connect_std(
    server: SocketAddr,
    connections: u64,
) -> anyhow::Result<Vec<std::net::TcpStream>> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(connect(server, connections, async |stream| {
        Ok(stream.into_std()?)
    }))
}

/// Opens a connection from the `n`th client address.
pub(crate) async fn connect_one(server: SocketAddr, n: u64) -> anyhow::Result<TcpStream> {
    let from = Ipv4Addr::new(127, 0, 0, 2 + n as u8);
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

/// The length of a frame in bytes.
pub(crate) const LENGTH: usize = 16;

/// A request or an answer.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// The number of the request. Its answer has the same number.
    pub(crate) number: u64,
    /// The content of the frame. Its meaning depends on the server.
    pub(crate) word: u64,
}

impl Frame {
    pub(crate) fn to_bytes(self) -> [u8; LENGTH] {
        (u128::from(self.word) << 64 | u128::from(self.number)).to_le_bytes()
    }

    fn from_bytes(bytes: [u8; LENGTH]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self {
            number: both as u64,
            word: (both >> 64) as u64,
        }
    }
}

/// Assembles frames from the bytes that a socket receives.
pub(crate) struct Frames {
    bytes: [u8; 32 * LENGTH],
    length: usize,
}

impl Frames {
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; 32 * LENGTH],
            length: 0,
        }
    }

    /// Returns the space for the next bytes. It is never empty, because [`take`](Self::take) leaves
    /// less than a frame.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.length..]
    }

    /// Removes the complete frames, after `read` more bytes have arrived.
    pub(crate) fn take(&mut self, read: usize) -> Vec<Frame> {
        self.length += read;
        let (whole, rest) = self.bytes[..self.length].as_chunks::<LENGTH>();
        let frames = whole.iter().copied().map(Frame::from_bytes).collect();
        let (taken, left) = (whole.len() * LENGTH, rest.len());
        self.bytes.copy_within(taken..taken + left, 0);
        self.length = left;
        frames
    }
}

/// The same moment on both clocks.
static EPOCH: LazyLock<(u64, Instant)> = LazyLock::new(|| (now(), Instant::now()));

/// Returns the time of the machine's monotonic clock, in nanoseconds. All processes read the same
/// time from it, so a process can tell another process when something must happen.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the instant at which the clock shows `at`. Equal times give equal instants.
pub(crate) fn instant(at: u64) -> Instant {
    let (epoch, instant) = *EPOCH;
    match at.checked_sub(epoch) {
        Some(since) => instant + Duration::from_nanos(since),
        None => instant - Duration::from_nanos(epoch - at),
    }
}

/// Blocks the thread until the clock shows `at`.
pub(crate) fn wait_until(at: u64) {
    thread::sleep(Duration::from_nanos(at.saturating_sub(now())));
}

#[cfg(test)]
mod tests {
    use super::{Frame, Frames, LENGTH};

    #[test]
    fn frames_come_whole_out_of_pieces() {
        let sent = (0..5).map(|number| Frame { number, word: 7 }.to_bytes());
        let sent = sent.collect::<Vec<_>>().concat();
        for size in 1..=sent.len() {
            let mut frames = Frames::new();
            let mut taken = Vec::new();
            for piece in sent.chunks(size) {
                frames.room()[..piece.len()].copy_from_slice(piece);
                taken.extend(frames.take(piece.len()));
            }
            assert_eq!(taken.len() * LENGTH, sent.len(), "in pieces of {size}");
            let numbers = taken.iter().map(|frame| (frame.number, frame.word));
            assert!(numbers.eq((0..5).map(|number| (number, 7))));
        }
    }
}

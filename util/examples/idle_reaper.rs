//! A TCP server that closes silent connections, and the most silent ones sooner when it is full.
//!
//! ```text
//! cargo run -p tokio-wheel-util --example idle_reaper --features idle
//! nc 127.0.0.1 7000        # sends back each line, and closes after 30 s of silence
//! ```
//!
//! For your own server, copy this file and these lines of a Cargo.toml:
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.54", features = ["io-util", "macros", "net", "rt-multi-thread", "signal", "sync"] }
//! tokio-wheel = "0.1"
//! tokio-wheel-util = { version = "0.1", features = ["idle"] }
//! ```
//!
//! Each connection is its own task. It inserts its number into an `IdleSet`, and touches the number when its peer sends
//! a line. Another task removes the numbers that expire, and closes their connections. A peer that sends the line `let
//! me in` is trusted, and has a longer timeout.
//!
//! If a new peer finds no free connection, the server sheds an eighth of its connections, beginning with the most silent
//! ones. In a small server, a rush of new peers may then also end peers that spoke just before.

use std::{
    collections::HashMap,
    future::Future,
    io,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader,
    },
    net::TcpListener,
    select, spawn,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinSet,
};
use tokio_wheel::{Duration, Instant, sleep};
use tokio_wheel_util::idle::{IdleSet, Reaper};

/// The longest line, in bytes.
const LONGEST: u64 = 1_024;

/// The pause after a failed `accept`.
const PAUSE: Duration = Duration::from_millis(10);

/// How long peers may be silent, and how many there may be.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// The time that a peer may be silent.
    pub(crate) timeout: Duration,
    /// The time that a trusted peer may be silent.
    pub(crate) trusted: Duration,
    /// The number of peers that may be connected at the same time.
    pub(crate) connections: usize,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let settings = Settings {
        timeout: Duration::from_secs(30),
        trusted: Duration::from_secs(90),
        connections: 10_000,
    };
    let listener = TcpListener::bind("127.0.0.1:7000").await?;
    let signal = async { tokio::signal::ctrl_c().await.expect("Ctrl-C must work") };
    Server::start(settings).serve(listener, signal).await;
    Ok(())
}

type Id = usize;

/// The reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer closed the connection.
    Left,
    /// The peer was silent for too long.
    Reaped,
    /// The server needed room for another peer.
    Shed,
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) id: Id,
    pub(crate) by: End,
    /// The time since the peer connected.
    pub(crate) millis: u128,
    /// The number of lines that the peer has sent.
    pub(crate) lines: usize,
}

/// The state that all connections share.
#[derive(Clone)]
pub(crate) struct Server {
    settings: Settings,
    idle: IdleSet<Id>,
    /// One sender for each connection, by which the reaper closes it and names the reason.
    open: Arc<Mutex<HashMap<Id, oneshot::Sender<End>>>>,
    pub(crate) free: Arc<Semaphore>,
    /// Asks the reaper to close that many connections.
    shed: mpsc::Sender<usize>,
}

impl Server {
    /// Makes a server, and spawns its reaper.
    pub(crate) fn start(settings: Settings) -> Self {
        let (idle, reaper) = IdleSet::new(settings.timeout);
        let (shed, shortage) = mpsc::channel(1);
        let open = Arc::default();
        spawn(close_silent(reaper, Arc::clone(&open), shortage));
        let free = Arc::new(Semaphore::new(settings.connections));
        Self {
            settings,
            idle,
            open,
            free,
            shed,
        }
    }

    /// Serves peers until `stop` is ready, and then drops their connections.
    pub(crate) async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut connections = JoinSet::new();
        let mut id = 0;
        loop {
            select! {
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => {
                        let permit = self.admit().await;
                        connections.spawn(self.clone().connection(id, permit, socket));
                        id += 1;
                    }
                    Err(error) => {
                        eprintln!("failed to accept a connection: {error}");
                        sleep(PAUSE).await;
                    }
                },
                Some(ended) = connections.join_next() => println!("{ended:?}"),
                () = stop.as_mut() => return,
            }
        }
    }

    /// Waits for room. If the server is full, it closes an eighth of its connections.
    pub(crate) async fn admit(&self) -> OwnedSemaphorePermit {
        if self.free.available_permits() == 0 {
            let count = self.settings.connections.div_ceil(8);
            let sent = self.shed.send(count).await;
            sent.expect("the reaper outlives the server");
        }
        let permit = self.free.clone().acquire_owned().await;
        permit.expect("no task closes the semaphore")
    }

    /// Serves a peer until its connection ends.
    pub(crate) async fn connection(
        self,
        id: Id,
        permit: OwnedSemaphorePermit,
        socket: impl AsyncRead + AsyncWrite + Unpin,
    ) -> Ended {
        let came = Instant::now();
        let (close, closed) = oneshot::channel();
        locked(&self.open).insert(id, close);
        // A peer that never sends anything must expire too, so the number is inserted now.
        self.idle.touch(&id);
        let mut lines = 0;
        let by = select! {
            _ = self.talk(id, socket, &mut lines) => End::Left,
            by = closed => by.expect("the sender stays in the map until it is used"),
        };
        self.idle.remove(&id);
        locked(&self.open).remove(&id);
        drop(permit);
        let millis = came.elapsed().as_millis();
        Ended {
            id,
            by,
            millis,
            lines,
        }
    }

    /// Sends back each line, until the peer leaves or its line is too long.
    async fn talk(
        &self,
        id: Id,
        socket: impl AsyncRead + AsyncWrite + Unpin,
        lines: &mut usize,
    ) -> io::Result<()> {
        let mut socket = BufReader::new(socket);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut limited = (&mut socket).take(LONGEST);
            limited.read_until(b'\n', &mut line).await?;
            if !line.ends_with(b"\n") {
                return Ok(());
            }
            *lines += 1;
            // If the reaper has already returned the number, the line comes too late. It must not insert the number
            // again.
            match &*line {
                b"let me in\n" => {
                    (self.idle).touch_existing_with_timeout(&id, self.settings.trusted)
                }
                _ => self.idle.touch_existing(&id),
            };
            socket.write_all(&line).await?;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics under the lock")
}

/// Closes silent connections until the server is dropped.
async fn close_silent(
    mut reaper: Reaper<Id>,
    open: Arc<Mutex<HashMap<Id, oneshot::Sender<End>>>>,
    mut shortage: mpsc::Receiver<usize>,
) {
    let close = |id, by| {
        if let Some(close) = locked(&open).remove(&id) {
            // This fails if the connection is ending by itself.
            let _ = close.send(by);
        }
    };
    loop {
        select! {
            silent = reaper.reap() => match silent {
                Some(id) => close(id, End::Reaped),
                None => break,
            },
            Some(count) = shortage.recv() => {
                for _ in 0..count {
                    match reaper.shed().await {
                        Some(id) => close(id, End::Shed),
                        None => break,
                    }
                }
            }
        }
    }
}

//! A server that closes the connections it has not heard from for too long.
//!
//! ```text
//! cargo run --example idle_reaper --features idle
//! ```
//!
//! Each connection is a task of its own, which inserts its number into an `IdleSet` and touches it
//! whenever its peer sends a line. One more task takes the numbers out that nobody has touched in time, and closes
//! these connections. A peer that is trusted has a longer timeout, from when it is known to be.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
    select, spawn,
    sync::oneshot,
    task::JoinSet,
};
use tokio_wheel::{
    Duration, Instant,
    idle::{IdleSet, Reaper},
    sleep_until,
};

/// For how long a peer may be silent.
const TIMEOUT: Duration = Duration::from_millis(300);

/// For how long one that is trusted may be.
const TRUSTED: Duration = Duration::from_millis(900);

type Id = usize;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer has closed it.
    Left,
    /// It was silent for too long.
    Reaped,
}

/// What became of the connections.
#[derive(Debug)]
pub(crate) struct Report {
    /// In the order in which they ended, and how many milliseconds after the start.
    pub(crate) ends: Vec<(&'static str, End, u128)>,
    /// How many lines the peers have sent.
    pub(crate) lines: usize,
}

/// What the connections share with each other.
#[derive(Clone)]
struct Server {
    idle: IdleSet<Id>,
    open: Open,
}

/// How to tell a connection that it is to close: what the reaper shares with them.
type Open = Arc<Mutex<HashMap<Id, oneshot::Sender<()>>>>;

impl Server {
    /// Serves a peer, and says how that ended and how many lines there were.
    async fn connection(self, id: Id, socket: DuplexStream) -> (End, usize) {
        let (close, mut closed) = oneshot::channel();
        self.open.lock().expect("nobody panics").insert(id, close);
        // A peer that never says anything is silent as well.
        self.idle.touch(&id);
        let mut lines = BufReader::new(socket).lines();
        let mut count = 0;
        let end = loop {
            select! {
                line = lines.next_line() => match line {
                    Ok(Some(line)) => {
                        count += 1;
                        self.heard(id, &line);
                    }
                    _ => {
                        self.idle.remove(&id);
                        self.open.lock().expect("nobody panics").remove(&id);
                        break End::Left;
                    }
                },
                _ = &mut closed => break End::Reaped,
            }
        };
        (end, count)
    }

    /// A line that comes when the reaper has the number already is too late. It must not insert the
    /// number again: nobody would take it out.
    fn heard(&self, id: Id, line: &str) {
        match line {
            "let me in" => self.idle.touch_existing_with_timeout(&id, TRUSTED),
            _ => self.idle.touch_existing(&id),
        };
    }
}

/// Closes the connections that are silent, until there is no server any more.
async fn close_silent(mut reaper: Reaper<Id>, open: Open) {
    while let Some(id) = reaper.reap().await {
        let close = open.lock().expect("nobody panics").remove(&id);
        if let Some(close) = close {
            // It may be about to end by itself.
            let _ = close.send(());
        }
    }
}

/// A peer: what it sends, and how many milliseconds after the start. It leaves after `leaves`, or
/// waits until the server closes the connection.
struct Peer {
    name: &'static str,
    sends: &'static [(u64, &'static str)],
    leaves: Option<u64>,
}

const PEERS: [Peer; 4] = [
    Peer {
        name: "regular",
        sends: &[(0, "hello"), (250, "beat"), (500, "beat"), (750, "beat")],
        leaves: Some(1_000),
    },
    Peer {
        name: "silent",
        sends: &[],
        leaves: None,
    },
    Peer {
        name: "fading",
        sends: &[(0, "hello"), (150, "beat"), (400, "beat")],
        leaves: None,
    },
    Peer {
        name: "trusted",
        sends: &[(0, "hello"), (100, "let me in"), (600, "beat")],
        leaves: None,
    },
];

impl Peer {
    async fn run(&self, start: Instant, mut socket: DuplexStream) {
        let at = |millis| sleep_until(start + Duration::from_millis(millis));
        for (millis, line) in self.sends {
            at(*millis).await;
            let line = format!("{line}\n");
            socket.write_all(line.as_bytes()).await.expect("it is open");
        }
        match self.leaves {
            Some(millis) => at(millis).await,
            None => {
                let end = socket.read(&mut [0]).await;
                assert_eq!(end.expect("it is not broken"), 0);
            }
        }
    }
}

/// Serves all peers to their ends.
pub(crate) async fn run() -> Report {
    let start = Instant::now();
    let (idle, reaper) = IdleSet::new(TIMEOUT);
    let open = Open::default();
    let closes = spawn(close_silent(reaper, open.clone()));
    let server = Server { idle, open };

    let mut connections = JoinSet::new();
    for (id, peer) in PEERS.iter().enumerate() {
        // Where a server would accept a socket.
        let (theirs, ours) = tokio::io::duplex(64);
        spawn(peer.run(start, theirs));
        let connection = server.clone().connection(id, ours);
        connections.spawn(async move { (peer.name, connection.await) });
    }
    // The last handles are those of the connections: when these have ended, the reaper does.
    drop(server);

    let mut report = Report {
        ends: Vec::new(),
        lines: 0,
    };
    while let Some(ended) = connections.join_next().await {
        let (name, (end, lines)) = ended.expect("no connection panics");
        let millis = start.elapsed().as_millis();
        println!("{millis:>5} ms  {name} has sent {lines} lines: {end:?}");
        report.ends.push((name, end, millis));
        report.lines += lines;
    }
    closes.await.expect("the reaper does not panic");
    println!(
        "{:>5} ms  no connection is left",
        start.elapsed().as_millis()
    );
    report
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    run().await;
}

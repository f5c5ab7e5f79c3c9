//! A server that closes the connections it has not heard from for too long, and sooner when descriptors run short.
//!
//! ```text
//! cargo run --example idle_reaper --features idle
//! cargo run --example idle_reaper --features idle -- --help
//! ```
//!
//! Each connection is a task of its own, which inserts its number into an `IdleSet` and touches it
//! whenever its peer sends a line. One more task takes the numbers out that nobody has touched in time, and closes
//! these connections. A peer that is trusted has a longer timeout, from when it is known to be.
//!
//! In the second part, a crowd of silent peers comes to a server with few file descriptors. The server does two things:
//!
//! * It sets the pressure of the set from the share of descriptors that are in use. So silent peers have less time the
//!   fewer descriptors are free.
//! * If there is none for a new peer, it sheds an eighth of its connections: those first that were silent for longest.
//!
//! The peers that talk all the time stay to the end, with [`FEWEST`] descriptors or more. With fewer, a rush of new peers
//! takes them all at once, and a peer that spoke 50 ms ago is then among those that were silent for longest.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use clap::Parser;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
    select, spawn,
    sync::{Semaphore, mpsc, oneshot},
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

/// For how long a peer may be silent when no descriptor is free.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

type Id = usize;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer has closed it.
    Left,
    /// It was silent for too long.
    Reaped,
    /// The server needed its descriptor.
    Shed,
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

/// How to tell a connection that it must close, and why: what the reaper shares with them.
type Open = Arc<Mutex<HashMap<Id, oneshot::Sender<End>>>>;

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
                end = &mut closed => break end.expect("the map has the sender until it sends"),
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

/// Closes the connections that are silent, until there is no server any more. Closes as many more as `shortage` says, those
/// first that were silent for longest.
async fn close_silent(mut reaper: Reaper<Id>, open: Open, mut shortage: mpsc::Receiver<usize>) {
    let close = |id, end| {
        let close = open.lock().expect("nobody panics").remove(&id);
        if let Some(close) = close {
            // It may be about to end by itself.
            let _ = close.send(end);
        }
    };
    loop {
        select! {
            silent = reaper.reap() => match silent {
                Some(id) => close(id, End::Reaped),
                None => break,
            },
            Some(count) = shortage.recv() => {
                let mut shed = reaper.shed(count);
                while let Some(id) = shed.next().await {
                    close(id, End::Shed);
                }
            }
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
    let (_, shortage) = mpsc::channel(1);
    let closes = spawn(close_silent(reaper, open.clone(), shortage));
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

/// What became of the crowd.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// The most descriptors that were in use at once.
    pub(crate) in_use: usize,
    /// How the peers that talk ended.
    pub(crate) active: Vec<End>,
    /// How the silent peers ended, in the order in which they ended: which one it was, and after how many milliseconds.
    pub(crate) silent: Vec<(Id, End, u128)>,
}

impl Crowd {
    /// Returns how many silent peers ended so, and the shortest and the longest time that they had.
    pub(crate) fn ended(&self, by: End) -> (usize, u128, u128) {
        let times = self.silent.iter().filter(|(_, end, _)| *end == by);
        let times: Vec<_> = times.map(|(_, _, millis)| *millis).collect();
        let [least, most] = [times.iter().min(), times.iter().max()];
        let or_none = |millis: Option<&u128>| millis.copied().unwrap_or_default();
        (times.len(), or_none(least), or_none(most))
    }
}

/// Peers that send a line every 50 ms.
const ACTIVE: usize = 4;

/// When the others come, which say nothing: one every 20 ms, and a rush of ten in between.
fn arrivals() -> impl Iterator<Item = u64> {
    let steady = (0..1_000).step_by(20);
    let mut times: Vec<u64> = steady.chain([510; 10]).collect();
    times.sort_unstable();
    times.into_iter()
}

/// Sends a line every 50 ms for a second and leaves.
async fn talk(start: Instant, mut socket: DuplexStream) {
    for millis in (0..1_000).step_by(50) {
        sleep_until(start + Duration::from_millis(millis)).await;
        if socket.write_all(b"beat\n").await.is_err() {
            return;
        }
    }
}

/// Says nothing and waits until the server closes the connection.
async fn say_nothing(mut socket: DuplexStream) {
    let end = socket.read(&mut [0]).await;
    assert_eq!(end.expect("it is not broken"), 0);
}

/// Serves a crowd with so many descriptors, which this simulates.
pub(crate) async fn crowd(limit: usize) -> Crowd {
    let start = Instant::now();
    let builder = IdleSet::builder(TIMEOUT).min_timeout(MIN_TIMEOUT);
    let (idle, reaper) = builder.build().expect("the minimal timeout is shorter");
    let open = Open::default();
    let (needs, shortage) = mpsc::channel(1);
    let closes = spawn(close_silent(reaper, open.clone(), shortage));
    let server = Server { idle, open };
    let free = Arc::new(Semaphore::new(limit));

    let mut connections = JoinSet::new();
    let mut crowd = Crowd {
        in_use: 0,
        active: Vec::new(),
        silent: Vec::new(),
    };
    let active = [0; ACTIVE].into_iter();
    for (id, at) in active.chain(arrivals()).enumerate() {
        sleep_until(start + Duration::from_millis(at)).await;
        let descriptor = match free.clone().try_acquire_owned() {
            Ok(descriptor) => descriptor,
            Err(_) => {
                let sent = needs.send(limit.div_ceil(8)).await;
                sent.expect("the reaper outlives the server");
                let descriptor = free.clone().acquire_owned().await;
                descriptor.expect("it is never closed")
            }
        };
        crowd.in_use = crowd.in_use.max(limit - free.available_permits());
        let (theirs, ours) = tokio::io::duplex(64);
        match id {
            ..ACTIVE => spawn(talk(start, theirs)),
            _ => spawn(say_nothing(theirs)),
        };
        let (server, free) = (server.clone(), free.clone());
        connections.spawn(async move {
            let came = Instant::now();
            // From 0 when half of the descriptors are in use to 1 when all are. What is below 0 counts as 0.
            let press = || {
                let share = 1.0 - free.available_permits() as f64 / limit as f64;
                server.idle.set_pressure(2.0 * share - 1.0);
            };
            press();
            let (end, _) = server.clone().connection(id, ours).await;
            drop(descriptor);
            press();
            (id, end, came.elapsed().as_millis())
        });
    }
    drop((server, needs));

    while let Some(ended) = connections.join_next().await {
        let (id, end, millis) = ended.expect("no connection panics");
        match id {
            ..ACTIVE => crowd.active.push(end),
            _ => crowd.silent.push((id, end, millis)),
        }
    }
    closes.await.expect("the reaper does not panic");

    let left = crowd.active.iter().filter(|end| **end == End::Left).count();
    println!(
        "a crowd of {} with {limit} descriptors, of which at most {} were in use:",
        ACTIVE + crowd.silent.len(),
        crowd.in_use
    );
    println!("  {left} of {ACTIVE} peers that talk left when they wanted");
    for (by, name) in [(End::Reaped, "reaped"), (End::Shed, "shed")] {
        let (count, least, most) = crowd.ended(by);
        match count {
            0 => println!("  no silent peer was {name}"),
            _ => println!("  {count} silent peers were {name} after {least} to {most} ms"),
        }
    }
    crowd
}

/// A server that closes silent connections, and sooner when descriptors run short.
#[derive(Parser)]
struct Args {
    /// How many descriptors the server has for the crowd of the second part.
    #[arg(long, default_value_t = FEWEST, value_parser = descriptors)]
    descriptors: usize,
}

/// The fewest descriptors with which no peer that talks is shed.
pub(crate) const FEWEST: usize = 20;

/// The most descriptors. More change nothing.
const MOST: usize = 1_000;

fn descriptors(given: &str) -> Result<usize, String> {
    match given.parse() {
        Ok(count) if (FEWEST..=MOST).contains(&count) => Ok(count),
        _ => Err(format!("allowed is a number from {FEWEST} to {MOST}")),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args = Args::parse();
    run().await;
    crowd(args.descriptors).await;
}

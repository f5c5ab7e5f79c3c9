//! A server that closes silent connections, and closes them sooner when descriptors run short.
//!
//! ```text
//! cargo run --example idle_reaper --features idle
//! cargo run --example idle_reaper --features idle -- --help
//! ```
//!
//! Each connection is its own task. It inserts its number into an `IdleSet` and touches the number
//! when its peer sends a line. Another task removes the numbers that expire and closes their
//! connections. A trusted peer has a longer timeout, from the moment the server knows it.
//!
//! In the second part, a crowd of silent peers connects to a server with few file descriptors. The
//! server does two things:
//!
//! * It sets the pressure of the set from the share of descriptors in use. So silent peers have
//!   less time when fewer descriptors are free.
//! * If a new peer finds no free descriptor, the server sheds an eighth of its connections,
//!   beginning with the most silent connections.
//!
//! With at least [`FEWEST`] descriptors, the peers that talk all the time stay to the end. With
//! fewer descriptors, a rush of new peers takes all of them at once. A peer that spoke 50 ms ago is
//! then among the most silent peers.

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

/// The time that a peer may be silent.
const TIMEOUT: Duration = Duration::from_millis(300);

/// The time that a trusted peer may be silent.
const TRUSTED: Duration = Duration::from_millis(900);

/// The time that a peer may be silent when no descriptor is free.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

type Id = usize;

/// The reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer closed the connection.
    Left,
    /// The peer was silent for too long.
    Reaped,
    /// The server needed its descriptor.
    Shed,
}

/// The end of all connections.
#[derive(Debug)]
pub(crate) struct Report {
    /// Each connection in the order of their ends, with the milliseconds since the start.
    pub(crate) ends: Vec<(&'static str, End, u128)>,
    /// The number of lines that the peers have sent.
    pub(crate) lines: usize,
}

/// The state that all connections share.
#[derive(Clone)]
struct Server {
    idle: IdleSet<Id>,
    open: Open,
}

/// One sender for each connection, by which the reaper closes it and names the reason.
type Open = Arc<Mutex<HashMap<Id, oneshot::Sender<End>>>>;

impl Server {
    /// Serves a peer. Returns the reason for the end and the number of lines.
    async fn connection(self, id: Id, socket: DuplexStream) -> (End, usize) {
        let (close, mut closed) = oneshot::channel();
        self.open
            .lock()
            .expect("no thread panics under the lock")
            .insert(id, close);
        // A peer that never sends anything must expire too, so the number is inserted now.
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
                        self.open.lock().expect("no thread panics under the lock").remove(&id);
                        break End::Left;
                    }
                },
                end = &mut closed => break end.expect("the sender stays in the map until it is used"),
            }
        };
        (end, count)
    }

    /// Handles a line.
    ///
    /// If the reaper has already returned the number, the line comes too late. It must not insert
    /// the number again, because no task would remove it.
    fn heard(&self, id: Id, line: &str) {
        match line {
            "let me in" => self.idle.touch_existing_with_timeout(&id, TRUSTED),
            _ => self.idle.touch_existing(&id),
        };
    }
}

/// Closes silent connections until the server is dropped. When `shortage` sends a number, closes
/// that many connections more, beginning with the most silent connections.
async fn close_silent(mut reaper: Reaper<Id>, open: Open, mut shortage: mpsc::Receiver<usize>) {
    let close = |id, end| {
        let close = open
            .lock()
            .expect("no thread panics under the lock")
            .remove(&id);
        if let Some(close) = close {
            // This fails if the connection is ending by itself.
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

/// A peer: the lines that it sends, with the milliseconds after the start. It leaves at `leaves`,
/// or waits until the server closes the connection.
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
            socket
                .write_all(line.as_bytes())
                .await
                .expect("the server reads");
        }
        match self.leaves {
            Some(millis) => at(millis).await,
            None => {
                let end = socket.read(&mut [0]).await;
                assert_eq!(end.expect("a duplex stream has no errors"), 0);
            }
        }
    }
}

/// Serves all peers until their connections end.
pub(crate) async fn run() -> Report {
    let start = Instant::now();
    let (idle, reaper) = IdleSet::new(TIMEOUT);
    let open = Open::default();
    let (_, shortage) = mpsc::channel(1);
    let closes = spawn(close_silent(reaper, open.clone(), shortage));
    let server = Server { idle, open };

    let mut connections = JoinSet::new();
    for (id, peer) in PEERS.iter().enumerate() {
        // A real server would accept a socket here.
        let (theirs, ours) = tokio::io::duplex(64);
        spawn(peer.run(start, theirs));
        let connection = server.clone().connection(id, ours);
        connections.spawn(async move { (peer.name, connection.await) });
    }
    // Only the connections have handles now. When they have ended, the reaper's stream ends.
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

/// The end of the crowd's connections.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// The maximal number of descriptors in use at the same time.
    pub(crate) in_use: usize,
    /// The ends of the peers that talk.
    pub(crate) active: Vec<End>,
    /// The ends of the silent peers in their order: the peer, the reason, and its time in
    /// milliseconds.
    pub(crate) silent: Vec<(Id, End, u128)>,
}

impl Crowd {
    /// Returns the number of silent peers that ended for a reason, and their shortest and longest
    /// time.
    pub(crate) fn ended(&self, by: End) -> (usize, u128, u128) {
        let times = self.silent.iter().filter(|(_, end, _)| *end == by);
        let times: Vec<_> = times.map(|(_, _, millis)| *millis).collect();
        let [least, most] = [times.iter().min(), times.iter().max()];
        let or_none = |millis: Option<&u128>| millis.copied().unwrap_or_default();
        (times.len(), or_none(least), or_none(most))
    }
}

/// The number of peers that send a line every 50 ms.
const ACTIVE: usize = 4;

/// Returns the times at which the silent peers connect: one peer every 20 ms, and ten peers at 510
/// ms.
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

/// Sends nothing and waits until the server closes the connection.
async fn say_nothing(mut socket: DuplexStream) {
    let end = socket.read(&mut [0]).await;
    assert_eq!(end.expect("a duplex stream has no errors"), 0);
}

/// Serves a crowd with `limit` simulated descriptors.
pub(crate) async fn crowd(limit: usize) -> Crowd {
    let start = Instant::now();
    let builder = IdleSet::builder(TIMEOUT).min_timeout(MIN_TIMEOUT);
    let (idle, reaper) = builder
        .build()
        .expect("the minimal timeout is shorter than the timeout");
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
                descriptor.expect("no task closes the semaphore")
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
            // The pressure is 0 when half of the descriptors are in use, and 1 when all are in use.
            // A negative pressure counts as 0.
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
        "a crowd of {} peers and {limit} descriptors, of which at most {} were in use:",
        ACTIVE + crowd.silent.len(),
        crowd.in_use
    );
    println!("  {left} of {ACTIVE} talking peers left by themselves");
    for (by, name) in [(End::Reaped, "reaped"), (End::Shed, "shed")] {
        let (count, least, most) = crowd.ended(by);
        match count {
            0 => println!("  no silent peer was {name}"),
            _ => println!("  {count} silent peers were {name} after {least} to {most} ms"),
        }
    }
    crowd
}

/// Runs a server that closes silent connections, sooner when descriptors run short.
#[derive(Parser)]
struct Args {
    /// The number of descriptors for the crowd of the second part.
    #[arg(long, default_value_t = FEWEST, value_parser = descriptors)]
    descriptors: usize,
}

/// The smallest number of descriptors with which no talking peer is shed.
pub(crate) const FEWEST: usize = 20;

/// The largest number of descriptors. More descriptors change nothing.
const MOST: usize = 1_000;

fn descriptors(given: &str) -> Result<usize, String> {
    match given.parse() {
        Ok(count) if (FEWEST..=MOST).contains(&count) => Ok(count),
        _ => Err(format!(
            "the number must be between {FEWEST} and {MOST}, got {given}"
        )),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args = Args::parse();
    run().await;
    crowd(args.descriptors).await;
}

//! A server that closes silent connections, and closes them sooner when descriptors run short.
//!
//! ```text
//! cargo run -p tokio-wheel-util --example idle_reaper --features idle
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
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
    select, spawn,
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
};
use tokio_wheel::{Duration, Instant, sleep_until};
use tokio_wheel_util::idle::{IdleSet, Reaper};

/// The time that a peer may be silent.
const TIMEOUT: Duration = Duration::from_millis(300);

/// The time that a trusted peer may be silent.
const TRUSTED: Duration = Duration::from_millis(900);

/// The time that a peer may be silent when no descriptor is free.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

/// The smallest number of descriptors with which no talking peer is shed.
pub(crate) const FEWEST: usize = 20;

/// The number of peers of the crowd that talk.
const TALKING: usize = 4;

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
struct Server {
    idle: IdleSet<Id>,
    /// One sender for each connection, by which the reaper closes it and names the reason.
    open: Arc<Mutex<HashMap<Id, oneshot::Sender<End>>>>,
}

impl Server {
    /// Starts a server. If `shortage` sends a number, the server sheds that many connections.
    fn start(shortage: mpsc::Receiver<usize>) -> Self {
        let builder = IdleSet::builder(TIMEOUT).min_timeout(MIN_TIMEOUT);
        let (idle, reaper) = (builder.build()).expect("the minimal timeout is shorter");
        let open = Arc::default();
        let server = Self { idle, open };
        spawn(close_silent(reaper, server.open.clone(), shortage));
        server
    }

    /// Serves a peer until its connection ends.
    async fn connection(self, id: Id, socket: DuplexStream) -> Ended {
        let came = Instant::now();
        let (close, mut closed) = oneshot::channel();
        locked(&self.open).insert(id, close);
        // A peer that never sends anything must expire too, so the number is inserted now.
        self.idle.touch(&id);
        let mut received = BufReader::new(socket).lines();
        let mut lines = 0;
        let by = loop {
            select! {
                line = received.next_line() => {
                    let Ok(Some(line)) = line else {
                        self.idle.remove(&id);
                        locked(&self.open).remove(&id);
                        break End::Left;
                    };
                    lines += 1;
                    // If the reaper has already returned the number, the line comes too late. It
                    // must not insert the number again, because no task would remove it.
                    match &*line {
                        "let me in" => self.idle.touch_existing_with_timeout(&id, TRUSTED),
                        _ => self.idle.touch_existing(&id),
                    };
                }
                by = &mut closed => break by.expect("the sender stays in the map until it is used"),
            }
        };
        let millis = came.elapsed().as_millis();
        Ended {
            id,
            by,
            millis,
            lines,
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

/// A peer sends lines, each so many milliseconds after the start, and leaves with the line `bye`.
/// Otherwise it waits until the server closes the connection.
async fn peer(start: Instant, lines: Vec<(u64, &'static str)>, mut socket: DuplexStream) {
    for (millis, line) in lines {
        sleep_until(start + Duration::from_millis(millis)).await;
        if line == "bye" || socket.write_all(line.as_bytes()).await.is_err() {
            return;
        }
        let _ = socket.write_all(b"\n").await;
    }
    let end = socket.read(&mut [0]).await;
    assert_eq!(end.expect("a duplex stream has no errors"), 0);
}

/// Serves four peers until their connections end. Returns the ends in their order.
pub(crate) async fn run() -> Vec<(&'static str, Ended)> {
    let (hello, beat) = ((0, "hello"), |millis| (millis, "beat"));
    let regular = vec![hello, beat(250), beat(500), beat(750), (1_000, "bye")];
    let trusted = vec![hello, (100, "let me in"), beat(600)];
    let peers = [
        ("regular", regular),
        ("silent", vec![]),
        ("fading", vec![hello, beat(150), beat(400)]),
        ("trusted", trusted),
    ];
    let names = peers.each_ref().map(|(name, _)| *name);
    let (_, shortage) = mpsc::channel(1);
    let (start, server) = (Instant::now(), Server::start(shortage));
    let mut connections = JoinSet::new();
    for (id, (_, lines)) in peers.into_iter().enumerate() {
        // A real server would accept a socket here.
        let (theirs, ours) = tokio::io::duplex(64);
        spawn(peer(start, lines, theirs));
        connections.spawn(server.clone().connection(id, ours));
    }
    let mut ends = Vec::new();
    while let Some(ended) = connections.join_next().await {
        let ended = ended.expect("no connection panics");
        println!(
            "{:>5} ms  {}: {:?}",
            ended.millis, names[ended.id], ended.by
        );
        ends.push((names[ended.id], ended));
    }
    ends
}

/// Serves a crowd with `limit` simulated descriptors. Returns the largest number of descriptors in
/// use at the same time, the ends of the talking peers and the ends of the silent peers.
pub(crate) async fn crowd(limit: usize) -> (usize, Vec<Ended>, Vec<Ended>) {
    let (needs, shortage) = mpsc::channel(1);
    let (start, server) = (Instant::now(), Server::start(shortage));
    let free = Arc::new(Semaphore::new(limit));
    let mut connections = JoinSet::new();
    let mut in_use = 0;
    // The talking peers connect first. One silent peer connects every 20 ms, and ten at 510 ms.
    let mut arrivals = vec![0; TALKING];
    arrivals.extend((0..1_000).step_by(20).chain([510; 10]));
    arrivals.sort_unstable();
    for (id, at) in arrivals.into_iter().enumerate() {
        sleep_until(start + Duration::from_millis(at)).await;
        if free.available_permits() == 0 {
            let sent = needs.send(limit.div_ceil(8)).await;
            sent.expect("the reaper outlives the server");
        }
        let descriptor = free.clone().acquire_owned().await;
        let descriptor = descriptor.expect("no task closes the semaphore");
        in_use = in_use.max(limit - free.available_permits());
        let (theirs, ours) = tokio::io::duplex(64);
        let talks = (0..1_000).step_by(50).map(|millis| (millis, "beat"));
        let lines: Vec<_> = match id {
            ..TALKING => talks.chain([(1_000, "bye")]).collect(),
            _ => Vec::new(),
        };
        spawn(peer(start, lines, theirs));
        let (server, free) = (server.clone(), free.clone());
        connections.spawn(async move {
            // The pressure is 0 when half of the descriptors are in use, and 1 when all are in use.
            // A negative pressure counts as 0.
            let press = || {
                let share = 1.0 - free.available_permits() as f64 / limit as f64;
                server.idle.set_pressure(2.0 * share - 1.0);
            };
            press();
            let ended = server.clone().connection(id, ours).await;
            drop(descriptor);
            press();
            ended
        });
    }
    let mut ends = Vec::new();
    while let Some(ended) = connections.join_next().await {
        ends.push(ended.expect("no connection panics"));
    }
    let (talking, silent): (Vec<_>, Vec<_>) = ends.into_iter().partition(|end| end.id < TALKING);
    println!("a crowd with {limit} descriptors, of which at most {in_use} were in use:");
    for by in [End::Left, End::Reaped, End::Shed] {
        let [talking, silent] = [&talking, &silent].map(|ends| of(ends, by).count());
        println!("  {by:?}: {talking} talking peers, {silent} silent peers");
    }
    (in_use, talking, silent)
}

/// Returns the milliseconds after which connections ended for a reason.
pub(crate) fn of(ends: &[Ended], by: End) -> impl Iterator<Item = u128> {
    ends.iter()
        .filter(move |end| end.by == by)
        .map(|end| end.millis)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    run().await;
    crowd(FEWEST).await;
}

//! The load: clients that talk to the server over real sockets, clients that stop talking all at
//! once, and sessions without a socket.
//!
//! The clients have a runtime of their own, and their own timers are always `tokio::time`'s. So every
//! difference between two reports comes from the server's timers.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Semaphore, watch},
    task::yield_now,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    server::{Limits, MESSAGE},
    timers::Timers,
};

/// How long the storm lasts. A round trip belongs to the storm if its message was on its way then.
pub(crate) const STORM: Duration = Duration::from_millis(100);

/// How many clients may be connecting at a time. A listener's backlog holds more clients than that.
/// A client that finds the backlog full waits a second for its answer.
const CONNECTING: usize = 64;

/// How long a client tries to connect and to get its first reply.
const CONNECT: Duration = Duration::from_secs(30);

/// The plan of a run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// The number of sessions without a socket.
    pub(crate) sessions: usize,
    /// How long to measure before the idle clients send their last message.
    pub(crate) calm: Duration,
    /// How long a client waits between a reply and its next message.
    pub(crate) think: Duration,
    pub(crate) limits: Limits,
}

impl Plan {
    /// Returns the number of clients that talk until the end.
    pub(crate) fn active(&self) -> usize {
        self.connections / 2
    }

    /// Returns the number of clients whose connections expire all at once.
    pub(crate) fn idle(&self) -> usize {
        self.connections - self.active()
    }
}

/// The instants at which the parts of a run begin.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    /// The instant at which the clients begin and the measurement starts.
    pub(crate) start: Instant,
    /// The instant at which the measurement of the calm ends and all idle clients send their last
    /// message.
    pub(crate) herd: Instant,
    /// The instant at which all sessions and all idle connections expire: one idle limit after
    /// `herd`.
    pub(crate) storm: Instant,
}

/// Durations in microseconds, in several histograms, so that two tasks seldom write to the same one.
pub(crate) struct Times {
    shards: [Mutex<Histogram<u64>>; 16],
    early: AtomicUsize,
}

impl Times {
    pub(crate) fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, 60_000_000, 3).expect("valid bounds");
        Self {
            shards: std::array::from_fn(|_| Mutex::new(histogram())),
            early: AtomicUsize::new(0),
        }
    }

    /// Adds the time from `begin` to `end`, which the task with this number has measured.
    pub(crate) fn add(&self, task: usize, begin: Instant, end: Instant) {
        self.early.fetch_add(usize::from(end < begin), Relaxed);
        let shard = &self.shards[task % self.shards.len()];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        shard.saturating_record(end.saturating_duration_since(begin).as_micros() as u64);
    }

    /// Returns how many times `end` was before `begin`.
    pub(crate) fn early(&self) -> usize {
        self.early.load(Relaxed)
    }

    pub(crate) fn sum(&self) -> Histogram<u64> {
        let mut shards = self.shards.iter();
        let mut shards = shards
            .by_ref()
            .map(|s| s.lock().unwrap_or_else(PoisonError::into_inner));
        let mut sum = shards.next().expect("there are some").clone();
        shards.for_each(|shard| sum += &*shard);
        sum
    }
}

/// The state that all clients of a run share.
pub(crate) struct Shared {
    plan: Plan,
    /// Holds the run's schedule once all clients are connected.
    go: watch::Receiver<Option<Schedule>>,
    connecting: Semaphore,
    pub(crate) connected: AtomicUsize,
    /// The replies that arrived in the calm, and the replies to messages that were on their way
    /// during the storm.
    pub(crate) round_trips: [Times; 2],
}

impl Shared {
    pub(crate) fn new(plan: Plan, go: watch::Receiver<Option<Schedule>>) -> Arc<Self> {
        Arc::new(Self {
            plan,
            go,
            connecting: Semaphore::new(CONNECTING),
            connected: AtomicUsize::new(0),
            round_trips: [Times::new(), Times::new()],
        })
    }

    fn record(&self, schedule: Schedule, client: usize, sent: Instant, received: Instant) {
        if received < schedule.herd {
            self.round_trips[0].add(client, sent, received);
        } else if received >= schedule.storm && sent < schedule.storm + STORM {
            self.round_trips[1].add(client, sent, received);
        }
    }
}

/// Runs one client, until the server closes the connection or the task is aborted. Returns whether
/// the client was silent when the connection ended. Fails only if it never gets through to the
/// server.
pub(crate) async fn client(
    number: usize,
    server: SocketAddr,
    shared: Arc<Shared>,
) -> io::Result<bool> {
    let plan = &shared.plan;
    let turn = shared.connecting.acquire().await;
    // A first message is echoed, so that the server has surely accepted.
    let connect = async {
        let mut socket = TcpStream::connect(server).await?;
        socket.set_nodelay(true)?;
        exchange(&mut socket).await?;
        io::Result::Ok(socket)
    };
    let mut socket = timeout(CONNECT, connect).await??;
    drop(turn);
    shared.connected.fetch_add(1, Relaxed);

    let played = async {
        let schedule = wait_for_start(&mut socket, &shared).await?;
        if number < plan.active() {
            talk(&mut socket, &shared, schedule, number).await
        } else {
            idle(&mut socket, plan, schedule).await
        }
    };
    if played.await.is_err() {
        return Ok(false);
    }
    // The client is silent now. It waits for the end of the connection.
    let _ = socket.read(&mut [0]).await;
    Ok(true)
}

/// Waits until all clients are connected.
async fn wait_for_start(socket: &mut TcpStream, shared: &Shared) -> io::Result<Schedule> {
    let mut go = shared.go.clone();
    loop {
        // An occasional message resets the server's idle limit.
        match timeout(shared.plan.limits.idle / 4, go.changed()).await {
            Ok(_) => return go.borrow().ok_or(ErrorKind::Interrupted.into()),
            Err(_) => exchange(socket).await?,
        }
    }
}

/// Sends messages and measures their round trips, until the connection ends.
async fn talk(
    socket: &mut TcpStream,
    shared: &Shared,
    schedule: Schedule,
    number: usize,
) -> io::Result<()> {
    let Plan {
        think, connections, ..
    } = shared.plan;
    // The clients begin one after the other, so their messages do not all arrive at once.
    sleep_until(schedule.start + think.mul_f64(number as f64 / connections as f64)).await;
    let mut sent = Instant::now();
    loop {
        exchange(socket).await?;
        let received = Instant::now();
        shared.record(schedule, number, sent, received);
        if !think.is_zero() {
            sleep(think).await;
        }
        sent = Instant::now();
    }
}

/// Keeps the connection open, and sends the last message together with all other idle clients.
async fn idle(socket: &mut TcpStream, plan: &Plan, schedule: Schedule) -> io::Result<()> {
    let mut next = schedule.start;
    while next < schedule.herd {
        sleep_until(next).await;
        exchange(socket).await?;
        next = Instant::now() + plan.limits.idle / 4;
    }
    sleep_until(schedule.herd).await;
    exchange(socket).await
}

/// Sends one message and waits for its echo.
async fn exchange(socket: &mut TcpStream) -> io::Result<()> {
    const SENT: [u8; MESSAGE] = [b'.'; MESSAGE];
    let mut received = [0; MESSAGE];
    socket.write_all(&SENT).await?;
    socket.read_exact(&mut received).await?;
    if received == SENT {
        Ok(())
    } else {
        Err(ErrorKind::InvalidData.into())
    }
}

/// Opens sessions that all expire at the same instant: tasks that wait until they expire, like the
/// sessions of a broker. Records in `ended` how late each session ended.
pub(crate) async fn open_sessions<T: Timers>(count: usize, expire: Instant, ended: Arc<Times>) {
    for number in 0..count {
        let ended = ended.clone();
        tokio::spawn(async move {
            T::sleep_until(expire).await;
            ended.add(number, expire, Instant::now());
        });
        if number % 1_000 == 0 {
            yield_now().await;
        }
    }
}

/// Raises the limit on file descriptors as far as needed. Both ends of a connection are in this
/// process.
#[cfg(unix)]
pub(crate) fn make_room(connections: usize) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let needed = 2 * connections as u64 + 64;
    // `None` means that there is no limit.
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        format!("{connections} connections need {needed} file descriptors: {error}")
    })
}

#[cfg(not(unix))]
pub(crate) fn make_room(_: usize) -> Result<(), String> {
    Ok(())
}

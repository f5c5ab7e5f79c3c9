//! The load: clients that talk to the server over real sockets, and clients that stop talking.
//!
//! The clients have a runtime of their own, and their own timers are always `tokio::time`'s. So every
//! difference between two reports comes from the server's timers.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Semaphore, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    figures::Replies,
    plan::{Plan, Role, STORM, Schedule},
    server::MESSAGE,
};

/// How many clients may be connecting at a time. A listener's backlog holds more clients than that.
/// A client that finds the backlog full waits a second for its answer.
const CONNECTING: usize = 64;

/// How long a client tries to connect and to get its first reply.
const CONNECT: Duration = Duration::from_secs(30);

/// How a client's run ended before the program told it to.
pub(crate) enum Left {
    /// It was silent, and the server closed the connection.
    ClosedSilent,
    /// The server closed the connection or broke it, though the client was talking.
    Dropped,
}

/// The state that all clients of a run share.
pub(crate) struct Shared {
    plan: Plan,
    /// Holds the run's schedule once all clients are connected.
    go: watch::Receiver<Option<Schedule>>,
    connecting: Semaphore,
    connected: AtomicUsize,
    born: Instant,
    /// The time of the last reply, in nanoseconds since `born`.
    last_reply: AtomicU64,
    /// The replies that arrived in the calm.
    pub(crate) calm: Replies,
    /// The replies to messages that were on their way during the storm.
    pub(crate) storm: Replies,
}

impl Shared {
    pub(crate) fn new(plan: Plan, go: watch::Receiver<Option<Schedule>>) -> Arc<Self> {
        Arc::new(Self {
            plan,
            go,
            connecting: Semaphore::new(CONNECTING),
            connected: AtomicUsize::new(0),
            born: Instant::now(),
            last_reply: AtomicU64::new(0),
            calm: Replies::new(),
            storm: Replies::new(),
        })
    }

    /// Returns how many clients are connected and have had a reply.
    pub(crate) fn connected(&self) -> usize {
        self.connected.load(Relaxed)
    }

    fn record(&self, schedule: Schedule, client: usize, sent: Instant, received: Instant) {
        let now = (received - self.born).as_nanos() as u64;
        let before = self.last_reply.swap(now, Relaxed);
        let part = if received < schedule.herd {
            &self.calm
        } else if received >= schedule.storm && sent < schedule.storm + STORM {
            &self.storm
        } else {
            return;
        };
        // If two replies arrive at once, the later one may get here first.
        let silence = Duration::from_nanos(now.saturating_sub(before));
        // Replies from before the start do not count.
        let silence = silence.min(received - schedule.start);
        part.add(client, received - sent, silence);
    }
}

/// Runs one client, until the server closes the connection or the task is aborted. Fails only if it
/// never gets through to the server.
pub(crate) async fn client(
    number: usize,
    server: SocketAddr,
    shared: Arc<Shared>,
) -> io::Result<Left> {
    let plan = &shared.plan;
    let mut socket = connect(server, &shared).await?;
    shared.connected.fetch_add(1, Relaxed);

    let Some(schedule) = wait_for_start(&mut socket, &shared).await else {
        return Ok(Left::Dropped);
    };
    let talked = match plan.role(number) {
        Role::Talks => talk(&mut socket, &shared, schedule, number, None).await,
        Role::FallsSilent { after } => {
            let until = schedule.start + after;
            talk(&mut socket, &shared, schedule, number, Some(until)).await
        }
        Role::Idles => idle(&mut socket, plan, schedule, number).await,
    };
    if talked.is_err() {
        return Ok(Left::Dropped);
    }

    // The client is silent now. It waits for the end of the connection.
    let _ = socket.read(&mut [0]).await;
    Ok(Left::ClosedSilent)
}

/// Connects and has a first message echoed, so that the server has surely accepted.
async fn connect(server: SocketAddr, shared: &Shared) -> io::Result<TcpStream> {
    let _turn = shared.connecting.acquire().await;
    timeout(CONNECT, async {
        let mut socket = TcpStream::connect(server).await?;
        socket.set_nodelay(true)?;
        exchange(&mut socket).await?;
        Ok(socket)
    })
    .await
    .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Waits until all clients are connected. Returns `None` if the connection or the run ends first.
async fn wait_for_start(socket: &mut TcpStream, shared: &Shared) -> Option<Schedule> {
    let mut go = shared.go.clone();
    loop {
        // An occasional message resets the server's idle limit.
        match timeout(shared.plan.limits.idle / 4, go.changed()).await {
            Ok(changed) => {
                changed.ok()?;
                return *go.borrow();
            }
            Err(_) => exchange(socket).await.ok()?,
        }
    }
}

/// Sends messages and measures their round trips.
async fn talk(
    socket: &mut TcpStream,
    shared: &Shared,
    schedule: Schedule,
    number: usize,
    until: Option<Instant>,
) -> io::Result<()> {
    let plan = &shared.plan;
    sleep_until(schedule.start + plan.share_of(number, plan.think)).await;
    let mut sent = Instant::now();
    while until.is_none_or(|until| sent < until) {
        exchange(socket).await?;
        let received = Instant::now();
        shared.record(schedule, number, sent, received);
        if plan.think.is_zero() {
            sent = received;
        } else {
            sleep(plan.think).await;
            sent = Instant::now();
        }
    }
    Ok(())
}

/// Keeps the connection open, and sends the last message together with all other idle clients.
async fn idle(
    socket: &mut TcpStream,
    plan: &Plan,
    schedule: Schedule,
    number: usize,
) -> io::Result<()> {
    let pause = plan.limits.idle / 4;
    let mut next = schedule.start + plan.share_of(number, pause);
    while next < schedule.herd {
        sleep_until(next).await;
        exchange(socket).await?;
        next = Instant::now() + pause;
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

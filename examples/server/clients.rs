//! The load: clients that talk to the server over real sockets, and some that stop talking.
//!
//! What timers they need for themselves are `tokio::time`'s whatever the server uses, so that the
//! timers reported are the server's.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use hdrhistogram::Histogram;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Semaphore, watch},
    time::{Instant, sleep, timeout},
};

use crate::{report::micros, run::Plan, server::MESSAGE};

/// How many clients may be connecting at a time: fewer than a listener's backlog holds, as a client
/// that finds it full is heard only a second later.
const CONNECTING: usize = 64;

/// How long a client tries to connect and to get its first reply.
const CONNECT: Duration = Duration::from_secs(30);

/// How a client's run ended before it was told to.
pub(crate) enum Left {
    /// It was silent, and the server closed the connection.
    ClosedSilent,
    /// The server closed the connection or broke it, though the client was talking.
    Dropped,
}

/// What all clients of a run share.
pub(crate) struct Shared {
    plan: Plan,
    /// Holds the run's start once all clients are connected.
    go: watch::Receiver<Option<Instant>>,
    connecting: Semaphore,
    connected: AtomicUsize,
    /// Round trips in microseconds; several histograms, so that clients seldom meet at one.
    round_trips: Vec<Mutex<Histogram<u64>>>,
}

impl Shared {
    pub(crate) fn new(plan: Plan, go: watch::Receiver<Option<Instant>>) -> Arc<Self> {
        let shards = 4 * thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Self {
            plan,
            go,
            connecting: Semaphore::new(CONNECTING),
            connected: AtomicUsize::new(0),
            round_trips: (0..shards).map(|_| Mutex::new(micros())).collect(),
        })
    }

    /// How many clients are connected and have had a reply.
    pub(crate) fn connected(&self) -> usize {
        self.connected.load(Ordering::Relaxed)
    }

    /// The round trips so far, in microseconds.
    pub(crate) fn round_trips(&self) -> Histogram<u64> {
        let mut sum = micros();
        for shard in &self.round_trips {
            sum += &*shard.lock().unwrap_or_else(PoisonError::into_inner);
        }
        sum
    }

    /// The number of messages that came back so far.
    pub(crate) fn messages(&self) -> u64 {
        let len = |shard: &Mutex<Histogram<u64>>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).len()
        };
        self.round_trips.iter().map(len).sum()
    }

    fn record(&self, client: usize, round_trip: Duration) {
        let micros = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX);
        self.round_trips[client % self.round_trips.len()]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .saturating_record(micros);
    }
}

/// One client, until the server closes the connection or the task is aborted. Fails only if it
/// never gets through to the server.
pub(crate) async fn client(
    number: usize,
    server: SocketAddr,
    shared: Arc<Shared>,
) -> io::Result<Left> {
    let plan = &shared.plan;
    let mut socket = connect(server, &shared).await?;
    shared.connected.fetch_add(1, Ordering::Relaxed);

    // Until all are here, a message now and then keeps the server's idle limit away.
    let mut go = shared.go.clone();
    loop {
        match timeout(plan.limits.idle / 4, go.changed()).await {
            Ok(Ok(())) => break,
            Ok(Err(_)) => return Ok(Left::Dropped), // The run was called off.
            Err(_) => {
                if exchange(&mut socket).await.is_err() {
                    return Ok(Left::Dropped);
                }
            }
        }
    }
    let start = go.borrow().unwrap_or_else(Instant::now);

    let silent_from = plan.silent_from(number).map(|after| start + after);
    let mut sent = Instant::now();
    while silent_from.is_none_or(|silent_from| sent < silent_from) {
        if exchange(&mut socket).await.is_err() {
            return Ok(Left::Dropped);
        }
        let received = Instant::now();
        shared.record(number, received - sent);
        if plan.think.is_zero() {
            sent = received;
        } else {
            sleep(plan.think).await;
            sent = Instant::now();
        }
    }

    // Silent: nothing comes any more but the end of the connection.
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

//! The second scene: a task that blocks its worker, as a password hash or a slow lock does.
//!
//! With `tokio::time`, all sockets and timers of the runtime may stop for as long as the task blocks, although another
//! worker is idle. `tokio_wheel` has a thread that notices it, and wakes another worker.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use hdrhistogram::Histogram;
use tokio::{runtime::Builder, sync::oneshot, time::Instant};

use crate::{
    load::Times,
    run::listen,
    server::{Limits, MESSAGE, serve},
    timers::Timers,
};

/// How long the task blocks, and how long it waits in between: it blocks five times a second.
pub(crate) const BLOCK: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(150);

/// The clients, and how long one waits between a reply and its next message.
pub(crate) const CLIENTS: usize = 8;
pub(crate) const THINK: Duration = Duration::from_millis(5);

/// How long a run takes.
const LENGTH: Duration = Duration::from_secs(2);

/// The figures of one run.
pub(crate) struct Run {
    /// The round trips, in microseconds.
    pub(crate) round_trips: Histogram<u64>,
    /// How many blocks the timer has seen, and the longest.
    pub(crate) blocks: Option<(u64, Duration)>,
}

/// Runs the server on the timers `T`, beside a task that blocks.
pub(crate) fn run<T: Timers>() -> io::Result<Run> {
    let server = Builder::new_multi_thread()
        .thread_name("server")
        .worker_threads(thread::available_parallelism().map_or(2, |it| it.get().max(2)))
        .enable_all()
        .build()?;
    let (listener, address) = server.block_on(listen(server.handle()))?;
    let (running, stop) = oneshot::channel::<()>();
    let limits = Limits {
        read: Duration::from_secs(30),
        idle: Duration::from_secs(60),
    };
    let stop = async { drop(stop.await) };
    server.spawn(serve::<T>(listener, limits, stop, |_| {}));
    server.spawn(async {
        loop {
            T::sleep_until(Instant::now() + PAUSE).await;
            thread::sleep(BLOCK);
        }
    });
    let round_trips = Times::new();
    thread::scope(|scope| {
        let talk = |number| {
            let round_trips = &round_trips;
            scope.spawn(move || talk(number, address, round_trips))
        };
        let clients: Vec<_> = (0..CLIENTS).map(talk).collect();
        let mut ends = clients.into_iter().map(|it| it.join().expect("a client"));
        ends.try_for_each(|end| end)
    })?;
    let blocks = server.block_on(async { T::blocks() });
    drop(running);
    server.shutdown_background();
    Ok(Run {
        round_trips: round_trips.sum(),
        blocks,
    })
}

/// Sends messages and waits for their echoes.
fn talk(number: usize, address: SocketAddr, round_trips: &Times) -> io::Result<()> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    let (end, mut message) = (Instant::now() + LENGTH, [0; MESSAGE]);
    while Instant::now() < end {
        let start = Instant::now();
        socket.write_all(&message)?;
        socket.read_exact(&mut message)?;
        round_trips.add(number, start, Instant::now());
        thread::sleep(THINK);
    }
    Ok(())
}

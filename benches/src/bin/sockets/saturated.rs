//! `saturated` measures a server that gets more requests than it can answer. The question is
//! whether its timeouts still fire in time.
//!
//! The server has two workers of tokio. A request waits for one of 16 permits, at most 50 ms, and
//! then works for 100 us. If the 50 ms pass, it is answered 503 at once. One request of 20 waits for
//! a backend that never answers, also for at most 50 ms. So timeouts must fire even when there are
//! enough permits.
//!
//! ```text
//! once     a closed loop on a server without limits: its answers a second are the capacity
//! T        requests at 0.7 times the capacity, for 1.2 s: the control
//! T + 1.9  requests at 2 times the capacity, for 1.2 s
//! ```
//!
//! Both wheels cascade every 4.096 s: they move the entries of a slot to lower levels. `T` is
//! chosen so that a cascade happens in the last part. It moves a sixth of the idle timers.
//!
//! The clients share the machine's cores with the server. So the capacity is the part of the cores
//! that the clients leave.

use std::{
    future::pending,
    hint::spin_loop,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::HumanCount;
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::{TcpStream, tcp::OwnedWriteHalf},
    runtime::Runtime,
    sync::{Mutex as AsyncMutex, Semaphore},
    task::yield_now,
};
use tokio_wheel_benches::{
    late::{Late, late_by},
    peer::Peer,
};

use crate::{
    Role,
    child::{self, Child},
    clients::{Clients, FRAMES, Load, Trip},
    net::{self, BUFFER, Frame, MS},
    report::{
        self,
        Compare::{Difference, Times},
        Figure, Table,
    },
    timer::{self, Timer},
};

/// How many connections carry the requests.
const CONNECTIONS: u64 = 256;

/// How many requests may work at a time.
const PERMITS: usize = 16;

/// How long a request may wait.
const LIMIT: Duration = Duration::from_millis(50);

/// How long a request works, and in how many parts. The request yields between the parts.
const WORK: Duration = Duration::from_micros(100);
const SLICES: u32 = 4;

/// The word of a request that waits for a backend that never answers. One of so many requests has
/// this word.
const HANGS: u64 = 1;
const HANGING: u64 = 20;

/// The status of a request that was served, and of a request that waited too long.
const OK: u64 = 200;
const UNAVAILABLE: u64 = 503;

/// An answer is in time if it comes this many nanoseconds after the scheduled time of its request,
/// or earlier.
const IN_TIME: u64 = 100 * MS;

/// The rates of the requests, as multiples of the capacity.
const LOADS: [f64; 2] = [0.7, 2.0];

/// How long a part lasts, and how long after its last request an answer still counts.
const LASTS: u64 = 1_200 * MS;
const PATIENCE: u64 = 500 * MS;

/// The time between the beginnings of two parts. The parent reads the answers of a part in between.
const PART: u64 = 1_900 * MS;

/// How long before the cascade the first part begins.
const BEFORE_CASCADE: u64 = PART + 1_000 * MS;

/// What to measure. Takes about five minutes by default.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    report: report::Args,
    /// How many idle timers wait beside the requests.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    idle: u64,
    /// The capacity in requests per second, instead of the measured capacity.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    capacity: Option<u32>,
}

/// Returns the figures of one timer at one load.
fn figures(trips: &[Trip], late: &Late) -> Vec<Figure> {
    let answers = || trips.iter().filter_map(|trip| trip.answer);
    let in_time = answers().filter(|&(time, status)| status == OK && time <= IN_TIME);
    let percent = |count: usize| 100.0 * count as f64 / trips.len() as f64;
    let fired = late.count() > 0;
    let late_ms = |quantile| if fired { late.ms(quantile) } else { f64::NAN };
    vec![
        ("timeouts late p50, ms", Times, late_ms(0.5)),
        ("timeouts late p99, ms", Times, late_ms(0.99)),
        ("timeouts late max, ms", Times, late_ms(1.0)),
        ("200 within 100 ms, %", Difference, percent(in_time.count())),
        ("answered, %", Difference, percent(answers().count())),
        ("timeouts that fired early", Difference, late.early() as f64),
    ]
}

/// Returns the time of a cascade of the wheels, counted from the start of the runtime.
fn cascade_at(cascade: u64, born: u64) -> u64 {
    born + cascade * 4_096 * MS
}

/// Runs all measurements and prints the result.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let capacity = match args.capacity {
        Some(capacity) => capacity.into(),
        None => start(Timer::None, 1, 1)?.2.capacity()?,
    };
    let idle = HumanCount(args.idle);
    let caption = |load| format!("{load} times the capacity, beside {idle} idle timers");
    let mut tables = LOADS.map(|load| Table::new(caption(load)));
    args.report.measure(|timers| {
        for &timer in timers {
            let runs = report::patiently(|factor| {
                let cascade = factor * (1 + args.idle / 1_000_000);
                measure(timer, args.idle, capacity, cascade)
            });
            for (table, run) in tables.iter_mut().zip(runs?) {
                table.push(timer, run);
            }
        }
        Ok(())
    })?;
    println!(
        "A request waits for a permit for at most 50 ms, works for 100 us, and is answered 200; or 503 \
         if\nthe 50 ms pass. One of 20 waits for a backend that never answers. Late: how late the timeouts\n\
         of these fire. The server can take {} requests a second. {} rounds. Once in 4.1 s a sixth of the\n\
         idle timers cascades: here while the last load lasts.\n",
        HumanCount(capacity as u64),
        args.report.rounds,
    );
    args.report.finish(&tables)
}

/// Runs all loads. A cascade happens in the last load. Returns `None` if the idle timers did not
/// start in time.
fn measure(
    timer: Timer,
    idle: u64,
    capacity: f64,
    cascade: u64,
) -> anyhow::Result<Option<Vec<Vec<Figure>>>> {
    let (mut server, born, mut clients) = start(timer, idle, cascade)?;
    let mut start = cascade_at(cascade, born) - BEFORE_CASCADE;
    if net::now() > start {
        return Ok(None);
    }
    let mut runs = Vec::new();
    for part in LOADS {
        let load = Load {
            start,
            lasts: LASTS,
            rate: Some(part * capacity),
            patience: PATIENCE,
            word: &|i| u64::from(i % HANGING == 0) * HANGS,
        };
        let trips = clients.send(&load)?;
        net::wait_until(start + LASTS + PATIENCE);
        runs.push(figures(&trips, &server.ask(&())?));
        start += PART;
    }
    Ok(Some(runs))
}

/// Starts a server and its clients. Returns the time at which the server's runtime started too.
fn start(timer: Timer, idle: u64, cascade: u64) -> anyhow::Result<(Child, u64, Clients)> {
    let role = Role::SaturatedServer { idle, cascade };
    let (server, (address, born)) = Child::start::<(SocketAddr, u64)>(timer, &role)?;
    Ok((
        server,
        born,
        Clients::connect(address, CONNECTIONS, &FRAMES)?,
    ))
}

/// Serves until the parent ends. For each line, answers how late timeouts were since the line
/// before. A frame is a request. The word of its answer is an HTTP status.
///
/// Each request has a task of its own, as with HTTP/2. It waits for one of [`PERMITS`] permits for
/// at most [`LIMIT`], like a request that needs a database connection from a pool. Then it works
/// for [`WORK`].
pub(crate) fn serve<P: Peer>(runtime: &Runtime, idle: u64, cascade: u64) -> anyhow::Result<()> {
    let born = net::now();
    let service = Arc::new(Service {
        permits: Semaphore::new(PERMITS),
        late: Mutex::default(),
    });
    let address = net::accept(runtime, {
        let service = service.clone();
        move |socket| connection::<P>(socket, service.clone())
    })?;
    // The idle timers expire after the measurement, spread over 20 s.
    let deadline = move |i| cascade_at(cascade, born) + 800 * MS + 20_000 * MS / idle * i;
    timer::start::<P>(runtime, idle, deadline, |_| ());
    child::answer(&(address, born))?;
    loop {
        child::told::<()>()?;
        let mut late = service.late.lock().unwrap_or_else(PoisonError::into_inner);
        let late = std::mem::take(&mut *late);
        child::answer(&late.into_iter().collect::<Late>())?;
    }
}

/// Serves one client.
async fn connection<P: Peer>(socket: TcpStream, service: Arc<Service>) -> anyhow::Result<()> {
    let (reader, writer) = socket.into_split();
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let writer = Arc::new(AsyncMutex::new(writer));
    loop {
        let frame = Frame::read(&mut reader).await?;
        tokio::spawn(answer::<P>(frame, writer.clone(), service.clone()));
    }
}

async fn answer<P: Peer>(
    Frame { number, word }: Frame,
    writer: Arc<AsyncMutex<OwnedWriteHalf>>,
    service: Arc<Service>,
) {
    let word = service.status::<P>(word).await;
    let answer = Frame { number, word }.to_bytes();
    // The server ignores a client that closes its connection.
    let _ = writer.lock().await.write_all(&answer).await;
}

struct Service {
    permits: Semaphore,
    /// How late the timeout of each hanging request fired, in nanoseconds. Negative if it fired
    /// early.
    late: Mutex<Vec<i64>>,
}

impl Service {
    /// Serves a request.
    async fn status<P: Peer>(&self, word: u64) -> u64 {
        let deadline = Instant::now() + LIMIT;
        let permit = P::timeout(LIMIT, async {
            if word == HANGS {
                pending::<()>().await;
            }
            self.permits.acquire().await
        });
        if let Ok(_permit) = permit.await {
            work().await;
            return OK;
        }
        // If its timer is late, a request that waits for a permit may get it after its deadline. So
        // only the hanging requests are the same requests for each timer.
        if word == HANGS {
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            late.push(late_by(deadline));
        }
        UNAVAILABLE
    }
}

/// Keeps the worker busy, in slices. Other tasks run between the slices.
async fn work() {
    for _ in 0..SLICES {
        let start = Instant::now();
        while start.elapsed() < WORK / SLICES {
            spin_loop();
        }
        yield_now().await;
    }
}

//! `saturated` measures a server that gets more requests than it can answer. The question is
//! whether its timeouts still fire in time.
//!
//! # Processes
//!
//! | process | threads | does |
//! |---|---|---|
//! | server | 2 workers of tokio | [`serve`]: a request waits for one of 16 permits, at most 50 ms, and then works for 100 us. If the 50 ms pass, it is answered 503 at once |
//! | clients | 1 | send requests on a fixed schedule, over 256 connections ([`open_loop`](crate::open_loop)) |
//!
//! One request of 20 waits for a backend that never answers, also for at most 50 ms. So timeouts
//! must fire even when there are enough permits.
//!
//! # Schedule
//!
//! ```text
//! once     a server without limits gets more requests than its cores can take: its answers a second are the capacity
//! T        requests at 0.7 times the capacity, for 1.2 s: the control
//! T + 1.7  requests at 1.3 times the capacity, for 1.2 s
//! T + 3.4  requests at 2 times the capacity, for 1.2 s
//! ```
//!
//! Both wheels cascade every 4.096 s: they move the entries of a slot to lower levels. `T` is
//! chosen so that a cascade happens in the last part. If there are idle timers, the cascade moves a
//! sixth of them.
//!
//! The clients share the machine's cores with the server. So the capacity is the part of the cores
//! that the clients leave.

use std::{
    future::pending,
    hint::spin_loop,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{bail, ensure};
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, tcp::OwnedWriteHalf},
    sync::{Mutex as AsyncMutex, Semaphore},
    task::yield_now,
    time::Instant,
};
use tokio_wheel_benches::{
    lab,
    late::{Late, nanos_late},
    peer::Peer,
};

use crate::{
    Role,
    child::{self, Child},
    net::{self, Frame, Frames, MS, WORKERS},
    open_loop::{Answers, Load},
    report::{self, All, Compare, Figure},
    timer::{self, Timer},
};

/// How many requests may work at a time.
const PERMITS: usize = 16;

/// How long a request may wait.
const LIMIT: Duration = Duration::from_millis(50);

/// How long a request works, and in how many parts. The request yields between the parts.
const WORK: Duration = Duration::from_micros(100);
const SLICES: u32 = 4;

/// The word of a request that waits for a backend that never answers.
const HANGS: u64 = 1;

/// The status of a request that was served, and of a request that waited too long.
const OK: u64 = 200;
const UNAVAILABLE: u64 = 503;

/// An answer is in time if it comes this many nanoseconds after the scheduled time of its request,
/// or earlier.
const IN_TIME: u64 = 100 * MS;

/// The rates of the requests, as multiples of the capacity.
const LOADS: [f64; 3] = [0.7, 1.3, 2.0];

/// One request of this many waits for a backend that never answers.
const HANGING: u64 = 20;

/// How long after the last request of a part an answer still counts.
const PATIENCE: u64 = 500 * MS;

/// How long before the cascade the first part begins.
const BEFORE_CASCADE: u64 = 4_800 * MS;

/// The time between the beginnings of two parts. The parent reads the answers of a part in between.
const PART: u64 = 1_900 * MS;

/// What to measure. Takes about five minutes by default.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each timer is measured. Fewer than six rounds give no intervals.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many idle timers wait beside the requests.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1_000_000])]
    idle: Vec<u64>,
    /// How many connections carry the requests.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// How many seconds each load lasts.
    #[arg(long, value_name = "SECONDS", default_value = "1.2", value_parser = crate::seconds)]
    seconds: Duration,
    /// The capacity in requests per second, instead of the measured capacity.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    capacity: Option<u64>,
    /// Write the figures of all runs into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The results of one timer at one load.
#[derive(Serialize)]
struct Run {
    requests: usize,
    /// The percentage of the requests with the answer 200 in time.
    in_time: f64,
    /// The percentage of the requests with an answer.
    answered: f64,
    /// How many timeouts fired, and how many of them before their deadline.
    fired: u64,
    early: u64,
    late: Late,
}

impl Run {
    fn new(answers: &Answers, late: Late) -> Self {
        let requests = answers.answers.len();
        let answered = || answers.answers.iter().flatten();
        let in_time = answered().filter(|&&(time, status)| status == OK && time <= IN_TIME);
        let percent = |count: usize| 100.0 * count as f64 / requests as f64;
        Self {
            requests,
            in_time: percent(in_time.count()),
            answered: percent(answered().count()),
            fired: late.count(),
            early: late.early(),
            late,
        }
    }

    fn late(&self, quantile: f64) -> Option<f64> {
        (self.fired > 0).then(|| self.late.ms(quantile))
    }
}

const FIGURES: [Figure<Run>; 5] = [
    Figure("timeouts late p50, ms", Compare::Times, |run| run.late(0.5)),
    Figure("timeouts late p99, ms", Compare::Times, |run| {
        run.late(0.99)
    }),
    Figure("timeouts late max, ms", Compare::Times, |run| run.late(1.0)),
    Figure("200 within 100 ms, %", Compare::Difference, |run| {
        Some(run.in_time)
    }),
    Figure("timeouts that fired early", Compare::Difference, |run| {
        Some(run.early as f64)
    }),
];

/// Returns the time of a cascade of the wheels, counted from the start of the runtime.
fn cascade_at(cascade: u64, born: u64) -> u64 {
    born + cascade * 4_096 * MS
}

/// Runs all measurements and prints the result.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let connections = net::afford(args.connections)?;
    ensure!(
        connections == args.connections,
        "--connections is {}, but must be at most {connections}",
        args.connections,
    );
    ensure!(
        (100..=1_200).contains(&args.seconds.as_millis()),
        "--seconds is {}, but must be between 0.1 and 1.2",
        args.seconds.as_secs_f64(),
    );
    let capacity = match args.capacity {
        Some(capacity) => capacity,
        None => args.best_capacity()?,
    };
    let measured = report::measure(args.rounds, &args.idle, |idle, timer| {
        args.measure(timer, idle, capacity)
    })?;

    #[derive(Serialize)]
    struct Cell {
        idle: u64,
        load: f64,
        series: All<Run>,
    }
    let mut cells = Vec::new();
    for (idle, all) in measured {
        let mut by_load = LOADS.map(|load| Cell {
            idle,
            load,
            series: report::none(),
        });
        for (i, series) in all.into_iter().enumerate() {
            for (cell, run) in series.runs.into_iter().flat_map(|runs| (0..).zip(runs)) {
                by_load[cell].series[i].runs.push(run);
            }
        }
        cells.extend(by_load);
    }
    println!(
        "A request waits for a permit for at most 50 ms, works for 100 us, and is answered 200; or 503 \
         if\nthe 50 ms pass. One of 20 waits for a backend that never answers. Late: how late the timeouts\n\
         of these fire. The server can take {} requests a second. {} rounds. Once in 4.1 s a sixth of the\n\
         idle timers cascades: here while the last load lasts.\n",
        HumanCount(capacity),
        args.rounds,
    );
    let table = |cell: &Cell| {
        let idle = HumanCount(cell.idle);
        let caption = format!(
            "{} times the capacity, beside {idle} idle timers",
            cell.load
        );
        (
            caption,
            FIGURES
                .iter()
                .map(|figure| figure.row(&cell.series))
                .collect(),
        )
    };
    report::finish(
        cells.iter().map(table).collect(),
        args.json.as_deref(),
        &cells,
    )
}

impl Args {
    /// Returns the highest of three measured capacities, because a brief disturbance of the machine
    /// lowers a capacity.
    fn best_capacity(&self) -> anyhow::Result<u64> {
        let mut best = 0;
        for _ in 0..3 {
            best = best.max(self.measure_capacity()?);
        }
        Ok(best)
    }

    /// Returns how many requests per second the server answers if it gets more than its workers can
    /// take.
    fn measure_capacity(&self) -> anyhow::Result<u64> {
        let (_server, ready, mut clients) = self.start(Timer::None, 0, 0)?;
        let rate = WORKERS as u64 * Duration::from_secs(1).div_duration_f64(WORK) as u64;
        let load = self.load(ready.born.max(net::now()) + 100 * MS, rate as f64, 0);
        let answers: Answers = clients.ask(&load)?;
        let end = load.due(load.count);
        // After the first quarter, the queue is long.
        let start = load.due(load.count / 4);
        let answered = (0..).zip(&answers.answers);
        let within = answered.filter_map(|(i, answer)| Some(load.due(i) + answer.as_ref()?.0));
        let within = within.filter(|at| (start..end).contains(at)).count();
        let capacity = within as f64 * 1e9 / (end - start) as f64;
        ensure!(capacity >= 1.0, "the server answered no request");
        Ok(capacity as u64)
    }

    /// Runs all loads. If the machine is too slow to start the idle timers in time, repeats the run
    /// with more time.
    fn measure(&self, timer: Timer, idle: u64, capacity: u64) -> anyhow::Result<Vec<Run>> {
        for cascade in [2, 4, 8, 16] {
            if let Some(runs) = self.try_to_measure(timer, idle, capacity, cascade)? {
                return Ok(runs);
            }
        }
        bail!("starting {idle} idle timers takes longer than a minute on this machine");
    }

    /// Runs all loads. If the last load lasts a second or more, a cascade happens in it. Returns
    /// `None` if the idle timers did not start in time.
    fn try_to_measure(
        &self,
        timer: Timer,
        idle: u64,
        capacity: u64,
        cascade: u64,
    ) -> anyhow::Result<Option<Vec<Run>>> {
        let (mut server, ready, mut clients) = self.start(timer, idle, cascade)?;
        let mut start = if idle == 0 {
            // No cascade happens without idle timers.
            net::now() + 200 * MS
        } else {
            cascade_at(cascade, ready.born) - BEFORE_CASCADE
        };
        if net::now() > start {
            return Ok(None);
        }
        let mut runs = Vec::new();
        for part in LOADS {
            let load = self.load(start, part * capacity as f64, HANGING);
            let answers: Answers = clients.ask(&load)?;
            net::wait_until(load.patience);
            runs.push(Run::new(&answers, server.ask(&())?));
            start += PART;
        }
        Ok(Some(runs))
    }

    fn start(
        &self,
        timer: Timer,
        idle: u64,
        cascade: u64,
    ) -> anyhow::Result<(Child, Ready, Child)> {
        let mut server = Child::start(&Role::SaturatedServer {
            timer,
            idle,
            cascade,
        })?;
        let ready: Ready = server.answer()?;
        let role = Role::Active {
            server: ready.addr,
            connections: self.connections,
        };
        let mut clients = Child::start(&role)?;
        clients.answer::<()>()?;
        Ok((server, ready, clients))
    }

    fn load(&self, start: u64, rate: f64, marked: u64) -> Load {
        let gap = ((1e9 / rate) as u64).max(1);
        let lasts = self.seconds.as_nanos() as u64;
        Load {
            start,
            gap,
            count: (lasts / gap).max(1),
            patience: start + lasts + PATIENCE,
            marked,
        }
    }
}

/// The message to the parent when the server is ready.
#[derive(Serialize, Deserialize)]
struct Ready {
    addr: SocketAddr,
    /// The time at which the runtime started, by [`net::now`].
    born: u64,
}

/// Serves until the parent closes standard input. For each line, answers how late timeouts were
/// since the line before. A frame is a request. The word of its answer is an HTTP status.
///
/// Each request has a task of its own, as with HTTP/2. It waits for one of [`PERMITS`] permits for
/// at most [`LIMIT`], like a request that needs a database connection from a pool. Then it works
/// for [`WORK`].
pub(crate) fn serve<P: Peer>(idle: u64, cascade: u64) -> anyhow::Result<()> {
    let born = net::now();
    let runtime = lab::unbound_runtime(WORKERS);
    let service = Arc::new(Service {
        permits: Semaphore::new(PERMITS),
        late: Mutex::default(),
    });
    let addr = net::accept(&runtime, {
        let service = service.clone();
        move |socket| connection::<P>(socket, service.clone())
    })?;
    // The idle timers expire after the measurement, spread over 20 s.
    let deadline = move |i| cascade_at(cascade, born) + 800 * MS + 20_000 * MS / idle * i;
    timer::start::<P>(&runtime, idle, deadline, |_, _| ());
    child::answer(&Ready { addr, born })?;
    while let Some(()) = child::told()? {
        let late =
            std::mem::take(&mut *service.late.lock().unwrap_or_else(PoisonError::into_inner));
        child::answer(&late.into_iter().collect::<Late>())?;
    }
    runtime.shutdown_background();
    Ok(())
}

/// Serves one client.
async fn connection<P: Peer>(socket: TcpStream, service: Arc<Service>) -> anyhow::Result<()> {
    let (mut reader, writer) = socket.into_split();
    let writer = Arc::new(AsyncMutex::new(writer));
    let mut frames = Frames::new();
    loop {
        let read = reader.read(frames.room()).await?;
        ensure!(read > 0, "the client closed its connection");
        for frame in frames.take(read) {
            tokio::spawn(answer::<P>(frame, writer.clone(), service.clone()));
        }
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
        match permit.await {
            Ok(_permit) => {
                work().await;
                OK
            }
            Err(_) => {
                // If its timer is late, a request that waits for a permit may get it after its
                // deadline. So only the hanging requests are the same requests for each timer.
                if word == HANGS {
                    let late = nanos_late(deadline.into_std(), std::time::Instant::now());
                    self.late
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(late);
                }
                UNAVAILABLE
            }
        }
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

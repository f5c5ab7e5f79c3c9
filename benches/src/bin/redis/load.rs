//! The client: one connection, N tasks, and turns on command.
//!
//! * The client measures in the middle of a turn. At the beginning and the end of a turn, few tasks
//!   compete, so these parts do not count.
//! * The timer is armed as in a server. A heartbeat of 10 s is always pending on the timer that
//!   keeps the timeouts, so no timeout of 30 s is ever the earliest entry. Without the heartbeat,
//!   each first timeout would wake a parked worker. In tokio, that is most of the cost of a
//!   timeout.
//! * Every 16th request reads the clock twice for its latency.
//! * By default the client has two workers, as `#[tokio::main]` has on the machine of the figures.
//!   The client uses more CPU time than the server, so one worker would leave half of a core idle.
//!   With one worker, or on one thread, client and server have a core each. Such runs repeat
//!   better, but show no contention.

use std::{
    fs,
    future::pending,
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures_lite::future::block_on;
use futures_util::future::try_join_all;
use redis::{InfoDict, RedisResult, aio::MultiplexedConnection, cmd};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Handle};
use tokio_wheel_benches::{lab::stay_on_core, peer::Peer, process::cpu_time};

use crate::{
    server::{KEY, VALUE, are_apart, connect, field},
    timers::{Timer, with_timer},
};

/// How long a request may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// One of this many requests is timed.
const TIMED: u64 = 16;

/// How many turns may pass without a reply before the client fails.
const TRIES: u32 = 10;

/// A client of a server.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The timer that keeps the timeouts.
    #[arg(long)]
    timer: Timer,
    /// The number of workers of the client's runtime.
    #[arg(long)]
    workers: u8,
    /// The port of the server.
    #[arg(long)]
    port: u16,
    /// The process id of the server.
    #[arg(long)]
    server: u32,
    /// Send this many requests and end, instead of taking turns.
    #[arg(long, requires = "depth")]
    requests: Option<u64>,
    /// How many of these requests are in flight.
    #[arg(long)]
    depth: Option<u64>,
}

/// The figures of the middle of a turn.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The number of requests answered in the middle of the turn. The next fields are the length of
    /// the middle, and the CPU time of this process and of the server.
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) client_seconds: f64,
    pub(crate) server_seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) all: Whole,
}

/// The figures of a whole turn, from its first request to its last.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Whole {
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    /// How often the server read from the connection.
    pub(crate) server_reads: u64,
}

/// Takes a turn for each line of standard input. A line contains the number of requests in flight
/// and the milliseconds of the middle. Prints the figures as a line of JSON. Ends when standard
/// input ends.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    with_timer!(args.timer, P => {
        let client = Client::new::<P>(args)?;
        if let (Some(requests), Some(depth)) = (args.requests, args.depth) {
            let whole = client.send::<P>(depth, requests.div_ceil(depth))?;
            return print(&whole);
        }
        for line in io::stdin().lines() {
            let line = line?;
            let (depth, millis) = line.split_once(' ').context("not two numbers")?;
            let (depth, middle) = (depth.parse()?, Duration::from_millis(millis.parse()?));
            // If the machine stops for a turn, the turn says nothing about a timer.
            let mut turns = (0..TRIES).map(|_| client.turn::<P>(depth, middle));
            let turn = turns.find_map(Result::transpose);
            print(&turn.with_context(|| {
                format!("{TRIES} turns of {middle:?} were too short for {depth} requests in flight")
            })??)?;
        }
        Ok(())
    })
}

fn print(value: &impl Serialize) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(value)?)?;
    Ok(stdout.flush()?)
}

/// Describes a client with this many workers.
pub(crate) fn describe(workers: u8) -> String {
    match workers {
        0 => "a client on one thread (tokio's current_thread)".to_owned(),
        1 => "a client of 1 worker".to_owned(),
        more => format!("a client of {more} workers"),
    }
}

/// Starts a runtime, which runs until the process ends.
fn start<P: Peer>(workers: u8) -> io::Result<Handle> {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        more => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(more.into());
            if are_apart(more) {
                let started = AtomicUsize::new(0);
                builder.on_thread_start(move || stay_on_core(started.fetch_add(1, Relaxed)));
            }
            builder
        }
    };
    P::configure(builder.enable_all());
    let runtime = builder.build()?;
    {
        let _entered = runtime.enter();
        P::install();
    }
    let handle = runtime.handle().clone();
    // Without workers, this thread runs everything.
    thread::spawn(move || {
        if workers == 0 && are_apart(workers) {
            stay_on_core(0);
        }
        runtime.block_on(pending::<()>());
    });
    Ok(handle)
}

struct Client {
    runtime: Handle,
    connection: MultiplexedConnection,
    server: u32,
}

impl Client {
    fn new<P: Peer>(args: &Args) -> anyhow::Result<Self> {
        let runtime = start::<P>(args.workers)?;
        runtime.spawn(async {
            loop {
                P::sleep(HEARTBEAT).await;
            }
        });
        let port = args.port;
        let connection = block_on(runtime.spawn(connect(port)))??;
        Ok(Self {
            runtime,
            connection,
            server: args.server,
        })
    }

    /// Makes `depth` tasks send requests for a while, and measures in the middle.
    ///
    /// Returns `None` if the middle contains no timed request.
    fn turn<P: Peer>(&self, depth: u64, middle: Duration) -> anyhow::Result<Option<Turn>> {
        let before = self.stats()?;
        let phase = Arc::new(Phase::default());
        let tasks = (0..depth)
            .map(|index| {
                self.runtime
                    .spawn(ask::<P>(self.task(index, phase.clone())))
            })
            .collect::<Vec<_>>();

        thread::sleep(middle / 8);
        let (begin, cpu, server) = (Instant::now(), cpu_time(), cpu_of(self.server)?);
        phase.set(Phase::MIDDLE);
        thread::sleep(middle);
        phase.set(Phase::END);
        let (seconds, cpu) = (begin.elapsed(), cpu_time() - cpu);
        let server = cpu_of(self.server)? - server;

        let outcomes = block_on(try_join_all(tasks))?;
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut latencies: Vec<_> = outcomes
            .iter()
            .flat_map(|outcome| &outcome.latencies)
            .collect();
        if latencies.is_empty() {
            return Ok(None);
        }
        latencies.sort_unstable();
        let quantile = |q: f64| {
            let rank = (latencies.len() - 1) as f64 * q;
            latencies[rank as usize].as_secs_f64() * 1e6
        };
        Ok(Some(Turn {
            requests: outcomes.iter().map(|outcome| outcome.counted).sum(),
            seconds: seconds.as_secs_f64(),
            client_seconds: cpu.as_secs_f64(),
            server_seconds: server.as_secs_f64(),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            all: self.stats()?.since(&before, &outcomes),
        }))
    }

    /// Makes `depth` tasks send `each` requests each. Reads no CPU clock, which would not work
    /// under valgrind.
    fn send<P: Peer>(&self, depth: u64, each: u64) -> anyhow::Result<Whole> {
        let before = self.stats()?;
        let phase = Arc::new(Phase::default());
        let tasks = (0..depth).map(|index| {
            let task = Task {
                times: each,
                ..self.task(index, phase.clone())
            };
            self.runtime.spawn(ask::<P>(task))
        });
        let tasks = tasks.collect::<Vec<_>>();
        let outcomes = block_on(try_join_all(tasks))?;
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(self.stats()?.since(&before, &outcomes))
    }

    fn task(&self, index: u64, phase: Arc<Phase>) -> Task {
        Task {
            connection: self.connection.clone(),
            index,
            phase,
            times: u64::MAX,
        }
    }

    /// Asks the server for its statistics.
    fn stats(&self) -> anyhow::Result<Stats> {
        let mut connection = self.connection.clone();
        let info: InfoDict = block_on(async {
            let mut info = cmd("INFO");
            info.arg("stats").query_async(&mut connection).await
        })?;
        Ok(Stats {
            commands: field(&info, "total_commands_processed")?,
            reads: field(&info, "total_reads_processed")?,
        })
    }
}

/// The statistics of a server.
struct Stats {
    commands: u64,
    reads: u64,
}

impl Stats {
    /// Returns the difference to earlier statistics, without the command that asked for them and
    /// its read.
    fn since(&self, earlier: &Self, outcomes: &[Outcome]) -> Whole {
        Whole {
            sent: self.commands - earlier.commands - 1,
            answered: outcomes.iter().map(|outcome| outcome.answered).sum(),
            server_reads: self.reads - earlier.reads - 1,
        }
    }
}

/// The current part of the turn. No task writes it, so every worker can keep the cache line.
#[derive(Default)]
struct Phase(AtomicU8);

impl Phase {
    const MIDDLE: u8 = 1;
    const END: u8 = 2;

    fn set(&self, phase: u8) {
        self.0.store(phase, Relaxed);
    }

    fn get(&self) -> u8 {
        self.0.load(Relaxed)
    }
}

struct Task {
    connection: MultiplexedConnection,
    index: u64,
    phase: Arc<Phase>,
    times: u64,
}

/// The results of a task.
struct Outcome {
    answered: u64,
    /// The number of requests in the middle of the turn.
    counted: u64,
    latencies: Vec<Duration>,
}

/// Sends one request after the other.
async fn ask<P: Peer>(mut task: Task) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome {
        answered: 0,
        counted: 0,
        latencies: Vec::new(),
    };
    while outcome.answered < task.times {
        let phase = task.phase.get();
        if phase == Phase::END {
            break;
        }
        let is_timed =
            phase == Phase::MIDDLE && (task.index + outcome.answered).is_multiple_of(TIMED);
        let begin = is_timed.then(Instant::now);
        let answer = P::timeout(LIMIT, get(&mut task.connection)).await;
        let answer = answer.ok().context("a request took 30 s")??;
        ensure!(answer == VALUE, "the server answered {answer:?}");
        outcome.latencies.extend(begin.map(|begin| begin.elapsed()));
        outcome.answered += 1;
        outcome.counted += u64::from(task.phase.get() == Phase::MIDDLE);
    }
    Ok(outcome)
}

async fn get(connection: &mut MultiplexedConnection) -> RedisResult<String> {
    cmd("GET").arg(KEY).query_async(connection).await
}

/// Returns the CPU time that the main thread of a process has used.
fn cpu_of(process: u32) -> anyhow::Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat"))?;
    let nanos = text.split_whitespace().next().context("no CPU time")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}

impl Turn {
    /// Adds a turn of the same length. The percentiles become the mean of both turns.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            seconds: self.seconds + other.seconds,
            client_seconds: self.client_seconds + other.client_seconds,
            server_seconds: self.server_seconds + other.server_seconds,
            p50_us: (self.p50_us + other.p50_us) / 2.0,
            p99_us: (self.p99_us + other.p99_us) / 2.0,
            all: Whole {
                sent: self.all.sent + other.all.sent,
                answered: self.all.answered + other.all.answered,
                server_reads: self.all.server_reads + other.all.server_reads,
            },
        }
    }
}

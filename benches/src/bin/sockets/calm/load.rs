//! The clients: very many connections in one thread, of which a few are busy. They share the
//! machine with the server, so they must be cheap. Requests and answers are bytes known in advance.

use std::{
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines, Stdin},
    net::TcpStream,
    runtime, select,
    sync::watch,
    task::JoinSet,
    time::{sleep, sleep_until, timeout},
};

use crate::{
    calm::{
        sample::{Sample, Usage},
        serve::{ANSWER, USAGE},
    },
    connect::{self, CONNECTING},
    files,
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// How long a server may free and read memory after all clients are connected.
const SETTLE: Duration = Duration::from_millis(200);

/// How long to wait for an answer before giving up.
const PATIENCE: Duration = Duration::from_secs(30);

const HUNG_UP: &str = "the server closed a connection: its limits must be longer than --every";

/// A server, and its load.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server's address.
    #[arg(long)]
    server: SocketAddr,
    #[command(flatten)]
    plan: Plan,
    /// Prints a line when all clients are connected. Then measures for each line of standard input,
    /// and prints a line afterwards.
    #[arg(long, hide = true)]
    on_command: bool,
}

/// The load of a server.
#[derive(Clone, Copy, clap::Args, Serialize)]
pub(crate) struct Plan {
    /// How many connections to open, as far as RLIMIT_NOFILE allows.
    #[arg(long, default_value_t = 18_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) connections: u64,
    /// How many of the connections are busy and make one request after the other.
    #[arg(long, default_value_t = 256)]
    pub(crate) busy: u64,
    /// How many seconds pass between two requests of each other connection.
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = crate::seconds)]
    pub(crate) every: Duration,
    /// How many client addresses to use, beginning with 127.0.0.2.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=250))]
    pub(crate) addresses: u8,
    /// How often to measure. The busy connections rest in between.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) turns: u32,
    /// How many seconds a measurement lasts.
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = crate::seconds)]
    pub(crate) seconds: Duration,
    /// How many seconds the connections are busy before a measurement.
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = crate::seconds)]
    pub(crate) warm_up: Duration,
}

impl Plan {
    /// Returns the plan with as many connections as the process may have.
    pub(crate) fn afforded(self) -> anyhow::Result<Self> {
        ensure!(
            !self.seconds.is_zero() && !self.every.is_zero(),
            "--seconds and --every must be more than 0"
        );
        let connections = files::afford(self.connections)?;
        ensure!(
            (1..=connections).contains(&self.busy),
            "--busy is {}, but must be between 1 and the number of connections, {connections}",
            self.busy,
        );
        Ok(Self {
            connections,
            ..self
        })
    }

    /// Returns the plan as arguments of `load`.
    pub(crate) fn to_args(self) -> [String; 14] {
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        [
            "--connections".into(),
            self.connections.to_string(),
            "--busy".into(),
            self.busy.to_string(),
            "--every".into(),
            seconds(self.every),
            "--addresses".into(),
            self.addresses.to_string(),
            "--turns".into(),
            self.turns.to_string(),
            "--seconds".into(),
            seconds(self.seconds),
            "--warm-up".into(),
            seconds(self.warm_up),
        ]
    }
}

/// Measures a server and prints the result.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let plan = args.plan.afforded()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let sample = runtime.block_on(measure(args, plan))?;
    writeln!(io::stdout(), "{}", serde_json::to_string(&sample)?)?;
    // Does not wait for the thread that reads from standard input.
    runtime.shutdown_background();
    Ok(())
}

async fn measure(args: &Args, plan: Plan) -> anyhow::Result<Sample> {
    let mut observer = Client::connect(args.server, Ipv4Addr::LOCALHOST).await?;
    let empty = observer.usage().await?.resident_bytes;
    let clients = connect(args.server, plan).await?;
    sleep(SETTLE).await;
    let full = observer.usage().await?.resident_bytes;

    let (busy, gate) = watch::channel(false);
    let latencies = Latencies::new();
    let mut load = start(clients, plan, &gate, &latencies);
    let mut tally = Tally::new();
    let turns = async {
        let mut commander = args.on_command.then(Commander::new).transpose()?;
        for _ in 0..plan.turns {
            if let Some(commander) = &mut commander {
                commander.command().await?;
            }
            busy.send_replace(true);
            sleep(plan.warm_up).await;
            tally.observe(&mut observer, plan, &latencies).await?;
            busy.send_replace(false);
            if let Some(commander) = &mut commander {
                commander.done()?;
            }
        }
        anyhow::Ok(())
    };
    select! {
        turns = turns => turns?,
        Some(failed) = load.join_next() => return Err(failed?),
    }
    let grown = full.saturating_sub(empty);
    tally.sample(grown as f64 / plan.connections as f64)
}

/// The parent process. It sends a line for each turn, and gets a line when the clients are ready
/// for the next turn.
struct Commander(Lines<BufReader<Stdin>>);

impl Commander {
    fn new() -> io::Result<Self> {
        let commander = Self(BufReader::new(tokio::io::stdin()).lines());
        commander.done()?;
        Ok(commander)
    }

    async fn command(&mut self) -> anyhow::Result<()> {
        let line = self.0.next_line().await?;
        line.context("the process that gives the commands has ended")?;
        Ok(())
    }

    fn done(&self) -> io::Result<()> {
        writeln!(io::stdout())
    }
}

/// Opens the connections. Each connection makes a request, so that the server has allocated its
/// memory for it.
async fn connect(server: SocketAddr, plan: Plan) -> anyhow::Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(plan.connections as usize);
    let mut connecting = JoinSet::new();
    for i in 0..plan.connections {
        let from = connect::address(i, plan.addresses);
        if connecting.len() == CONNECTING {
            clients.extend(connecting.join_next().await.transpose()?.transpose()?);
        }
        connecting.spawn(async move {
            let mut client = Client::connect(server, from).await?;
            client.ask().await?;
            anyhow::Ok(client)
        });
    }
    while let Some(client) = connecting.join_next().await {
        clients.push(client??);
    }
    Ok(clients)
}

/// Lets the clients make requests. The busy clients make them only while the gate is open. The
/// clients end only with an error.
fn start(
    clients: Vec<Client>,
    plan: Plan,
    gate: &watch::Receiver<bool>,
    latencies: &Latencies,
) -> JoinSet<anyhow::Error> {
    let mut load = JoinSet::new();
    let mut clients = clients.into_iter();
    for client in clients.by_ref().take(plan.busy as usize) {
        let pace = Pace::Busy(gate.clone());
        load.spawn(client.play(pace, latencies.clone()));
    }
    let now = tokio::time::Instant::now();
    let idle = clients.len();
    for (i, client) in clients.enumerate() {
        let pace = Pace::Idle {
            next: now + plan.every.mul_f64((i + 1) as f64 / idle as f64),
            every: plan.every,
        };
        load.spawn(client.play(pace, latencies.clone()));
    }
    load
}

/// The results of the turns so far.
struct Tally {
    time: Duration,
    latencies: Histogram<u64>,
    server: Duration,
    clients: Duration,
}

impl Tally {
    fn new() -> Self {
        Self {
            time: Duration::ZERO,
            latencies: histogram(),
            server: Duration::ZERO,
            clients: Duration::ZERO,
        }
    }

    /// Adds the results of a turn.
    async fn observe(
        &mut self,
        observer: &mut Client,
        plan: Plan,
        latencies: &Latencies,
    ) -> anyhow::Result<()> {
        let server = observer.usage().await?;
        let clients = Usage::of_this_process();
        latencies.lock().reset();
        let start = Instant::now();

        sleep(plan.seconds).await;

        self.time += start.elapsed();
        self.latencies += &*latencies.lock();
        self.clients += Usage::of_this_process().cpu_since(&clients);
        self.server += observer.usage().await?.cpu_since(&server);
        Ok(())
    }

    fn sample(&self, bytes_per_connection: f64) -> anyhow::Result<Sample> {
        let requests = self.latencies.len();
        ensure!(requests > 0, "no request was answered in {:?}", self.time);
        let micros = |quantile| self.latencies.value_at_quantile(quantile) as f64 / 1e3;
        let per_request = |cpu: Duration| cpu.as_secs_f64() * 1e6 / requests as f64;
        Ok(Sample {
            requests,
            requests_per_second: requests as f64 / self.time.as_secs_f64(),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            server_us: per_request(self.server),
            clients_us: per_request(self.clients),
            bytes_per_connection,
        })
    }
}

fn histogram() -> Histogram<u64> {
    let highest = 2 * PATIENCE.as_nanos() as u64;
    Histogram::new_with_max(highest, 3).expect("3 digits are allowed")
}

/// How long each request took, in nanoseconds.
#[derive(Clone)]
struct Latencies(Arc<Mutex<Histogram<u64>>>);

impl Latencies {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(histogram())))
    }

    fn lock(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a client makes its requests.
enum Pace {
    /// Makes one request after the other while the gate is open.
    Busy(watch::Receiver<bool>),
    /// Makes a request in regular intervals.
    Idle {
        next: tokio::time::Instant,
        every: Duration,
    },
}

impl Pace {
    async fn wait(&mut self) {
        match self {
            // The gate is dropped when the run is over.
            Self::Busy(gate) => drop(gate.wait_for(|open| *open).await),
            Self::Idle { next, every } => {
                sleep_until(*next).await;
                *next += *every;
            }
        }
    }
}

/// One connection.
struct Client {
    socket: TcpStream,
}

impl Client {
    async fn connect(server: SocketAddr, from: Ipv4Addr) -> anyhow::Result<Self> {
        let socket = connect::connect(server, from).await?;
        Ok(Self { socket })
    }

    async fn play(mut self, mut pace: Pace, latencies: Latencies) -> anyhow::Error {
        loop {
            pace.wait().await;
            let start = Instant::now();
            if let Err(error) = self.ask().await {
                return error;
            }
            latencies
                .lock()
                .saturating_record(start.elapsed().as_nanos() as u64);
        }
    }

    async fn ask(&mut self) -> anyhow::Result<()> {
        self.exchange(REQUEST, |body| (body == ANSWER.as_bytes()).then_some(()))
            .await
    }

    /// Returns what the server has used so far.
    async fn usage(&mut self) -> anyhow::Result<Usage> {
        let request = format!("GET {USAGE} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let usage = self.exchange(request.as_bytes(), |body| serde_json::from_slice(body).ok());
        timeout(PATIENCE, usage)
            .await
            .with_context(|| format!("the server did not answer within {PATIENCE:?}"))?
    }

    /// Sends a request, and reads until `parse` accepts the body.
    async fn exchange<T>(
        &mut self,
        request: &[u8],
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> anyhow::Result<T> {
        self.socket.write_all(request).await.context(HUNG_UP)?;
        let mut answer = [0; 512];
        let mut length = 0;
        loop {
            let read = self.socket.read(&mut answer[length..]).await;
            length += match read.context(HUNG_UP)? {
                0 => bail!(HUNG_UP),
                read => read,
            };
            let text = &answer[..length];
            if let Some(parsed) = body(text).and_then(&parse) {
                return Ok(parsed);
            }
            let good = text.iter().zip(b"HTTP/1.1 200 ").all(|(a, b)| a == b);
            ensure!(
                good && length < answer.len(),
                "the server has answered {:?}",
                String::from_utf8_lossy(text),
            );
        }
    }
}

/// Returns the bytes after an answer's head, or `None` if the head is incomplete.
fn body(answer: &[u8]) -> Option<&[u8]> {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(&answer[head + 4..])
}

//! `calm` measures what the limits of a hyper server cost while none of them expires.
//!
//! In each round, every timer has a server and clients of its own, in fresh processes. The clients
//! stay connected and take short turns at being busy. So a change of the machine that lasts longer
//! than a turn affects all timers. The layout of memory differs from round to round.
//!
//! The limits of a connection are set as users of each timer would set them:
//!
//! | limit   | tokio-wheel        | `tokio::time`              |
//! |---------|--------------------|----------------------------|
//! | head    | `WheelTimer`       | hyper-util's `TokioTimer`  |
//! | request | `timeout`          | `timeout`                  |
//! | idle    | `io::TimeoutStream`, any byte counts | [`Idle`], any byte counts |
//!
//! [`Idle`] is the simplest code that keeps an idle limit on `tokio::time`. With it, the figures
//! compare tokio-wheel with the timer rather than with another crate.
//!
//! The clients are very many connections in one thread, of which a few are busy. They share the
//! machine with the server, so they must be cheap. Requests and answers are bytes known in advance.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use hdrhistogram::Histogram;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
    runtime, select,
    sync::{mpsc, oneshot, watch},
    task::{JoinSet, spawn_blocking},
    time::{self, Sleep, sleep, sleep_until, timeout},
};
use tokio_wheel_benches::{
    lab::{self, Lab},
    peer::{Bare, Peer, Tokio, TokioWheel},
    process::{cpu_time, resident_bytes},
    stats::{in_round, median},
    workload::rpc,
};
use tokio_wheel_util::{hyper::WheelTimer, io::TimeoutStream};

use crate::{
    Role,
    child::{self, Child},
    net::{self, WORKERS},
    report::{self, All, Compare, Figure},
    timer::with_timer,
};

/// How long a handler may take, how long no byte may move, and how long the head of a request may
/// take. hyper counts the wait for the head too.
const REQUEST: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(60);
const HEAD: Duration = Duration::from_secs(90);

/// The answer to every request except a request for [`USAGE`].
const ANSWER: &str = "ok\n";

/// The path that returns the server's own usage.
const USAGE: &str = "/usage";

/// How long the connections are busy before a measurement.
const WARM_UP: Duration = Duration::from_millis(100);

/// How long a server may free and read memory after all clients are connected.
const SETTLE: Duration = Duration::from_millis(200);

/// How long to wait for an answer before giving up.
const PATIENCE: Duration = Duration::from_secs(30);

const HUNG_UP: &str = "the server closed a connection: its limits must be longer than --every";

/// What to compare, and for how long: about four and a half minutes by default.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each timer is measured. Fewer than six rounds give no intervals.
    #[arg(long, default_value_t = 18, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    plan: Plan,
    /// How many requests of the in-process service a turn makes.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    rpcs: u64,
    /// Write every sample into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The load of a server.
#[derive(Clone, Copy, clap::Args, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// How many connections to open, as far as RLIMIT_NOFILE allows.
    #[arg(long, default_value_t = 18_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    connections: u64,
    /// How many of the connections are busy and make one request after the other.
    #[arg(long, default_value_t = 256)]
    busy: u64,
    /// How many seconds pass between two requests of each other connection.
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = crate::seconds)]
    every: Duration,
    /// How often to measure. The busy connections rest in between.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// How many seconds a measurement lasts.
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = crate::seconds)]
    seconds: Duration,
}

impl Plan {
    /// Returns the plan with as many connections as the process may have.
    fn afforded(self) -> anyhow::Result<Self> {
        ensure!(
            !self.seconds.is_zero() && !self.every.is_zero() && self.every < IDLE,
            "--seconds and --every must be more than 0, and --every less than {IDLE:?}"
        );
        let connections = net::afford(self.connections)?;
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
}

/// The results of one timer in one round.
#[derive(Serialize)]
struct Run {
    http: Sample,
    /// The time of a request of the in-process service, and the CPU time of both workers.
    rpc_nanos: f64,
    rpc_cpu_nanos: f64,
}

/// The measurements of the clients, for one server.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Sample {
    requests: u64,
    requests_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    /// The CPU time of the server and of the clients per request.
    server_us: f64,
    clients_us: f64,
    /// The growth of the server's resident memory, per connection.
    bytes_per_connection: f64,
}

const FIGURES: [Figure<Run>; 9] = [
    Figure("requests/s", Compare::Percent, |run| {
        Some(run.http.requests_per_second)
    }),
    Figure("p50, us", Compare::Percent, |run| Some(run.http.p50_us)),
    Figure("p99, us", Compare::Percent, |run| Some(run.http.p99_us)),
    Figure("p99.9, us", Compare::Percent, |run| Some(run.http.p999_us)),
    Figure("server, us of CPU/req.", Compare::Difference, |run| {
        Some(run.http.server_us)
    }),
    Figure("clients, us of CPU/req.", Compare::Difference, |run| {
        Some(run.http.clients_us)
    }),
    Figure("server's bytes/conn.", Compare::Difference, |run| {
        Some(run.http.bytes_per_connection)
    }),
    Figure("in process, ns/request", Compare::Difference, |run| {
        Some(run.rpc_nanos)
    }),
    Figure("its CPU, ns/request", Compare::Difference, |run| {
        Some(run.rpc_cpu_nanos)
    }),
];

/// Runs the comparison and prints the result.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let plan = args.plan.afforded()?;
    let mut all: All<Run> = report::none();
    let progress = report::progress(args.rounds.into());
    for number in 0..args.rounds {
        let order = in_round(vec![0, 1, 2], number);
        round(&mut all, &order, plan, args.rpcs)?;
        progress.inc(1);
    }
    progress.finish_and_clear();

    println!(
        "{} connections, {} of them busy, each other one with a request every {:?}; {} rounds of {} \
         turns of {:?}\n",
        HumanCount(plan.connections),
        plan.busy,
        plan.every,
        args.rounds,
        plan.turns,
        plan.seconds,
    );
    let rows = FIGURES.iter().map(|figure| figure.row(&all)).collect();
    report::finish(
        vec![("An HTTP server".into(), rows)],
        args.json.as_deref(),
        &all,
    )?;
    let runs = all
        .iter()
        .flat_map(|series| &series.runs)
        .map(|run| run.http);
    let busy = runs.map(|http| http.requests_per_second * (http.server_us + http.clients_us) / 1e6);
    let cores = lab::cores().len();
    println!(
        "Server and clients kept {:.2} cores busy, of {cores}.",
        median(busy)
    );
    Ok(())
}

fn round(all: &mut All<Run>, order: &[usize], plan: Plan, rpcs: u64) -> anyhow::Result<()> {
    // The workload `rpc`, in which no system call hides the timer.
    let mut spent = [(Duration::ZERO, Duration::ZERO); 3];
    for _ in 0..plan.turns {
        for &i in order {
            let (elapsed, cpu) = with_timer!(all[i].timer, P => time_rpc::<P>(rpcs));
            spent[i].0 += elapsed;
            spent[i].1 += cpu;
        }
    }
    let mut pairs = Vec::with_capacity(order.len());
    for &i in order {
        let mut server = Child::start(&Role::CalmServer {
            timer: all[i].timer,
        })?;
        let mut clients = Child::start(&Role::CalmClients {
            server: server.answer()?,
            plan,
        })?;
        clients.answer::<()>()?;
        pairs.push((i, server, clients));
    }
    for _ in 0..plan.turns {
        for (_, _, clients) in &mut pairs {
            clients.ask::<()>(&())?;
        }
    }
    for (i, _server, mut clients) in pairs {
        let per_request =
            |time: Duration| time.as_nanos() as f64 / (u64::from(plan.turns) * rpcs) as f64;
        all[i].runs.push(Run {
            http: clients.answer()?,
            rpc_nanos: per_request(spent[i].0),
            rpc_cpu_nanos: per_request(spent[i].1),
        });
    }
    Ok(())
}

/// Returns the wall time and the CPU time of the requests.
fn time_rpc<P: Peer>(requests: u64) -> (Duration, Duration) {
    let lab = Lab::quiet::<P>(WORKERS);
    let cpu = cpu_time();
    let elapsed = lab.run(rpc::<P>(requests));
    (elapsed, cpu_time() - cpu)
}

/// Sets the limits of a connection. The peer's `timeout` limits a request.
pub(crate) trait Limits: Peer {
    /// A socket with an idle limit.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Limits how long the head of a request may take.
    fn head(builder: &mut http1::Builder);

    /// Limits how long no byte may move.
    fn idle(socket: TcpStream) -> Self::Stream;
}

impl Limits for TokioWheel {
    type Stream = TimeoutStream<TcpStream>;

    fn head(builder: &mut http1::Builder) {
        builder.timer(WheelTimer::new()).header_read_timeout(HEAD);
    }

    fn idle(socket: TcpStream) -> Self::Stream {
        let limits = tokio_wheel_util::io::Limits::new().idle_timeout(IDLE);
        TimeoutStream::with_limits(socket, limits)
    }
}

impl Limits for Tokio {
    type Stream = Idle;

    fn head(builder: &mut http1::Builder) {
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    }

    fn idle(socket: TcpStream) -> Self::Stream {
        Idle {
            socket,
            sleep: Box::pin(sleep(IDLE)),
            moved: true,
        }
    }
}

impl Limits for Bare {
    type Stream = TcpStream;

    fn head(_: &mut http1::Builder) {}

    fn idle(socket: TcpStream) -> Self::Stream {
        socket
    }
}

/// A socket whose operations fail if they wait and no byte has moved for too long.
pub(crate) struct Idle {
    socket: TcpStream,
    /// The sleep of the limit. The first operation that waits after bytes have moved postpones it.
    /// So each wait reads the clock once. This is the cheapest way on tokio, because postponing a
    /// deadline takes no lock.
    sleep: Pin<Box<Sleep>>,
    moved: bool,
}

impl Idle {
    /// Polls an operation that may move bytes. Fails the operation if it has waited for too long.
    fn poll_in_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let outcome = poll(Pin::new(&mut self.socket), cx);
        if outcome.is_ready() {
            self.moved = true;
            return outcome;
        }
        if std::mem::take(&mut self.moved) {
            self.sleep.as_mut().reset(time::Instant::now() + IDLE);
        }
        self.sleep
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Idle {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut()
            .poll_in_time(cx, |socket, cx| socket.poll_read(cx, buf))
    }
}

impl AsyncWrite for Idle {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_in_time(cx, |socket, cx| socket.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_in_time(cx, |socket, cx| socket.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

/// Serves with hyper and keep-alive, until the process is killed.
pub(crate) fn serve<L: Limits>() -> anyhow::Result<()> {
    let runtime = lab::unbound_runtime(WORKERS);
    let mut builder = http1::Builder::new();
    L::head(&mut builder);
    let entered = runtime.enter();
    let backend = backend();
    drop(entered);
    let address = net::accept(&runtime, move |socket| {
        let (builder, backend) = (builder.clone(), backend.clone());
        async move { connection::<L>(socket, &builder, &backend).await }
    })?;
    child::answer(&address)?;
    // Waits until the parent closes standard input.
    child::told::<()>()?;
    runtime.shutdown_background();
    Ok(())
}

/// Serves one client.
async fn connection<L: Limits>(
    socket: TcpStream,
    builder: &http1::Builder,
    backend: &Backend,
) -> anyhow::Result<()> {
    let stream = L::idle(socket);
    let service =
        service_fn(
            async |request| match L::timeout(REQUEST, answer(request, backend)).await {
                Ok(answer) => answer,
                Err(_) => {
                    let mut response = Response::new(Full::default());
                    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
                    Ok(response)
                }
            },
        );
    builder
        .serve_connection(TokioIo::new(stream), service)
        .await?;
    Ok(())
}

async fn answer(
    request: Request<Incoming>,
    backend: &Backend,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let body = if request.uri().path() == USAGE {
        serde_json::to_vec(&Usage::now())?.into()
    } else {
        let (reply, answer) = oneshot::channel();
        ensure!(backend.send(reply).is_ok(), "the backend has ended");
        Bytes::from_static(answer.await?.as_bytes())
    };
    Ok(Response::new(Full::new(body)))
}

/// The service that a handler waits for, as other handlers wait for a database. The workload `rpc`
/// uses the same service.
type Backend = mpsc::UnboundedSender<oneshot::Sender<&'static str>>;

fn backend() -> Backend {
    let (requests, mut inbox) = mpsc::unbounded_channel::<oneshot::Sender<_>>();
    tokio::spawn(async move {
        let mut batch = Vec::with_capacity(64);
        while inbox.recv_many(&mut batch, 64).await > 0 {
            for reply in batch.drain(..) {
                // A handler whose time is over no longer waits.
                let _ = reply.send(ANSWER);
            }
        }
    });
    requests
}

/// The resources that a process has used so far.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Usage {
    cpu: Duration,
    resident_bytes: u64,
}

impl Usage {
    fn now() -> Self {
        Self {
            cpu: cpu_time(),
            resident_bytes: resident_bytes(),
        }
    }
}

/// Connects the clients. Then measures for each line of standard input, and answers it. Answers
/// with a [`Sample`] in the end.
pub(crate) fn load(server: SocketAddr, plan: Plan) -> anyhow::Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let measured = runtime.block_on(measure(server, plan));
    // Does not wait for the thread that reads from standard input.
    runtime.shutdown_background();
    measured
}

async fn measure(server: SocketAddr, plan: Plan) -> anyhow::Result<()> {
    let mut observer = Client {
        socket: net::connect_one(server, 0).await?,
    };
    let empty = observer.usage().await?.resident_bytes;
    // Each connection makes a request, so that the server has allocated its memory for it.
    let clients = net::connect(server, plan.connections, async |socket| {
        let mut client = Client { socket };
        client.ask().await?;
        Ok(client)
    });
    let clients = clients.await?;
    sleep(SETTLE).await;
    let grown = observer.usage().await?.resident_bytes.saturating_sub(empty);

    let (busy, gate) = watch::channel(false);
    let latencies = Latencies::default();
    let mut load = start(clients, plan, &gate, &latencies);
    let mut tally = Tally::default();
    let turns = async {
        child::answer(&())?;
        for _ in 0..plan.turns {
            let told = spawn_blocking(child::told::<()>).await??;
            told.context("the parent has ended")?;
            busy.send_replace(true);
            sleep(WARM_UP).await;
            tally.observe(&mut observer, plan, &latencies).await?;
            busy.send_replace(false);
            child::answer(&())?;
        }
        anyhow::Ok(())
    };
    select! {
        turns = turns => turns?,
        Some(failed) = load.join_next() => return Err(failed?),
    }
    child::answer(&tally.sample(grown as f64 / plan.connections as f64)?)
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
    let now = time::Instant::now();
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
#[derive(Default)]
struct Tally {
    time: Duration,
    latencies: Latencies,
    server: Duration,
    clients: Duration,
}

impl Tally {
    /// Adds the results of a turn.
    async fn observe(
        &mut self,
        observer: &mut Client,
        plan: Plan,
        latencies: &Latencies,
    ) -> anyhow::Result<()> {
        let server = observer.usage().await?;
        let clients = cpu_time();
        latencies.lock().reset();
        let start = Instant::now();

        sleep(plan.seconds).await;

        self.time += start.elapsed();
        *self.latencies.lock() += &*latencies.lock();
        self.clients += cpu_time() - clients;
        self.server += observer.usage().await?.cpu - server.cpu;
        Ok(())
    }

    fn sample(&self, bytes_per_connection: f64) -> anyhow::Result<Sample> {
        let latencies = self.latencies.lock();
        let requests = latencies.len();
        ensure!(requests > 0, "no request was answered in {:?}", self.time);
        let micros = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
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

/// How long each request took, in nanoseconds.
#[derive(Clone)]
struct Latencies(Arc<Mutex<Histogram<u64>>>);

impl Default for Latencies {
    fn default() -> Self {
        let highest = 2 * PATIENCE.as_nanos() as u64;
        let histogram = Histogram::new_with_max(highest, 3).expect("3 digits are allowed");
        Self(Arc::new(Mutex::new(histogram)))
    }
}

impl Latencies {
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
        next: time::Instant,
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
        self.exchange(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", |body| {
            (body == ANSWER.as_bytes()).then_some(())
        })
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

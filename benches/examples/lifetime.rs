//! Measures the limits of a server's connections: an idle limit, a maximum age, a grace period, and
//! a shutdown.
//!
//! ```text
//! cargo run --release -p tokio-wheel-benches --example lifetime
//! ```
//!
//! The same hyper server runs in three ways: without limits, with limits by hand on `tokio::time`,
//! and with `tokio_wheel_util::hyper::Connections`. Its clients send requests over pipes in memory, so
//! no system call hides the difference. Each round measures all three ways in turn. `--only KIND`
//! runs one of them alone, for valgrind.

use std::{
    alloc::System,
    convert::Infallible,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use clap::{Parser, ValueEnum};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    runtime::{Builder, Runtime},
    select,
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_wheel_benches::{process::cpu_time, stats::Estimate, table, turns::in_round};
use tokio_wheel_util::hyper::{Connections, Limits};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const IDLE: Duration = Duration::from_secs(60);
const MAX_AGE: Duration = Duration::from_secs(3_600);
const GRACE: Duration = Duration::from_secs(10);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Measures what the limits of a server's connections cost.
#[derive(Parser)]
#[command(name = "lifetime")]
struct Args {
    /// How many rounds to measure. Fewer than six give no intervals.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many requests each client sends in a round.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// How many connections to open for measuring the memory of a connection.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Runs one kind alone, on one thread, and prints nothing.
    #[arg(long, value_name = "KIND")]
    only: Option<Kind>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// No limits.
    None,
    /// Limits by hand on tokio::time.
    ByHand,
    /// Limits by tokio_wheel_util::hyper::Connections.
    Connections,
}

impl Kind {
    const ALL: [Self; 3] = [Self::None, Self::ByHand, Self::Connections];

    fn name(self) -> &'static str {
        match self {
            Self::None => "no limits",
            Self::ByHand => "by hand on tokio::time",
            Self::Connections => "hyper::Connections",
        }
    }
}

/// A server that keeps the limits of its connections.
trait Server: Clone + Send + 'static {
    fn new() -> Self;

    /// Serves a connection.
    fn serve(&self, pipe: DuplexStream) -> impl Future<Output = ()> + Send + 'static;
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"ok\n"))))
}

#[derive(Clone)]
struct Unlimited;

impl Server for Unlimited {
    fn new() -> Self {
        Self
    }

    #[expect(clippy::manual_async_fn, reason = "the future outlives the server")]
    fn serve(&self, pipe: DuplexStream) -> impl Future<Output = ()> + Send + 'static {
        async move {
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(pipe), service_fn(answer));
            drop(connection.await);
        }
    }
}

/// The simplest code that keeps the limits on `tokio::time`.
#[derive(Clone)]
struct ByHand {
    shutdown: Arc<watch::Sender<bool>>,
}

/// The state that a connection and its requests share.
struct Activity {
    opened: Instant,
    in_flight: AtomicUsize,
    /// The start of the idle time, in nanoseconds after `opened`.
    idle_since: AtomicU64,
}

/// Counts a request until it is dropped.
struct InFlight(Arc<Activity>);

impl InFlight {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(activity.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let since = self.0.opened.elapsed().as_nanos() as u64;
        self.0.idle_since.store(since, Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Release);
    }
}

impl Server for ByHand {
    fn new() -> Self {
        Self {
            shutdown: Arc::new(watch::Sender::new(false)),
        }
    }

    fn serve(&self, pipe: DuplexStream) -> impl Future<Output = ()> + Send + 'static {
        let mut shutdown = self.shutdown.subscribe();
        async move {
            let activity = Arc::new(Activity {
                opened: Instant::now(),
                in_flight: AtomicUsize::new(0),
                idle_since: AtomicU64::new(0),
            });
            let service = service_fn(|request| {
                let in_flight = InFlight::begin(&activity);
                async move {
                    let answer = answer(request).await;
                    drop(in_flight);
                    answer
                }
            });
            let connection = http1::Builder::new().serve_connection(TokioIo::new(pipe), service);
            let mut connection = pin!(connection);
            let mut idle = pin!(sleep(IDLE));
            let mut age = pin!(sleep(MAX_AGE));
            let mut is_shut_down = pin!(shutdown.wait_for(|shut_down| *shut_down));
            loop {
                select! {
                    biased;
                    _ = connection.as_mut() => return,
                    () = age.as_mut() => break,
                    _ = is_shut_down.as_mut() => break,
                    () = idle.as_mut() => {
                        let idle_since = Duration::from_nanos(activity.idle_since.load(Ordering::Relaxed));
                        let deadline = match activity.in_flight.load(Ordering::Acquire) {
                            0 => activity.opened + idle_since + IDLE,
                            _ => Instant::now() + IDLE,
                        };
                        if deadline <= Instant::now() {
                            break;
                        }
                        idle.as_mut().reset(deadline);
                    }
                }
            }
            connection.as_mut().graceful_shutdown();
            let _ = timeout(GRACE, connection).await;
        }
    }
}

impl Server for Connections {
    fn new() -> Self {
        let limits = Limits::new().idle(IDLE).max_age(MAX_AGE).grace(GRACE);
        Connections::new(limits)
    }

    fn serve(&self, pipe: DuplexStream) -> impl Future<Output = ()> + Send + 'static {
        let guard = self.open().expect("there is no limit");
        async move {
            let connect =
                |service| http1::Builder::new().serve_connection(TokioIo::new(pipe), service);
            drop(guard.serve(service_fn(answer), connect).await);
        }
    }
}

/// The client's side of a connection.
struct Client(DuplexStream);

impl Client {
    fn connect(server: &impl Server) -> Self {
        let (ours, theirs) = tokio::io::duplex(1_024);
        tokio::spawn(server.serve(theirs));
        Self(ours)
    }

    async fn ask(&mut self) {
        let mut answer = [0; 256];
        self.0.write_all(REQUEST).await.expect("the server lives");
        let length = self.0.read(&mut answer).await.expect("the server answers");
        assert!(answer[..length].ends_with(b"ok\n"));
    }
}

fn runtime(workers: usize) -> Runtime {
    let mut builder = match workers {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(workers).enable_all().build();
    runtime.expect("the machine has threads")
}

/// Runs a client for each worker. The clients send their requests one after the other.
fn exchange<S: Server>(workers: usize, requests: u32) {
    let server = S::new();
    runtime(workers).block_on(async {
        // Arms the timer, as in a server. Otherwise the first wait of a timer costs more on
        // tokio::time.
        let armed = tokio::spawn(sleep(Duration::from_secs(1)));
        let mut clients = JoinSet::new();
        for _ in 0..workers {
            let server = server.clone();
            clients.spawn(async move {
                let mut client = Client::connect(&server);
                for _ in 0..requests {
                    client.ask().await;
                }
            });
        }
        clients.join_all().await;
        armed.abort();
    });
}

/// Returns how many bytes the allocator counts for a connection after one request.
fn bytes_per_connection<S: Server>(connections: u32) -> f64 {
    let server = S::new();
    runtime(1).block_on(async {
        let mut clients = Vec::with_capacity(connections as usize);
        let region = Region::new(HEAP);
        for _ in 0..connections {
            let mut client = Client::connect(&server);
            client.ask().await;
            clients.push(client);
        }
        let change = region.change();
        let bytes = change.bytes_allocated - change.bytes_deallocated;
        bytes as f64 / f64::from(connections)
    })
}

/// The figures of one kind.
struct Measured {
    bytes: f64,
    /// The time of a request in nanoseconds, for each round: with one thread, and with two workers.
    request: [Vec<f64>; 2],
}

fn measure_bytes(kind: Kind, connections: u32) -> f64 {
    match kind {
        Kind::None => bytes_per_connection::<Unlimited>(connections),
        Kind::ByHand => bytes_per_connection::<ByHand>(connections),
        Kind::Connections => bytes_per_connection::<Connections>(connections),
    }
}

fn run(kind: Kind, workers: usize, requests: u32) {
    match kind {
        Kind::None => exchange::<Unlimited>(workers, requests),
        Kind::ByHand => exchange::<ByHand>(workers, requests),
        Kind::Connections => exchange::<Connections>(workers, requests),
    }
}

/// Returns the nanoseconds of processor time that a request takes.
fn measure_request(kind: Kind, workers: usize, requests: u32) -> f64 {
    let before = cpu_time();
    run(kind, workers, requests);
    let took = cpu_time() - before;
    took.as_nanos() as f64 / (f64::from(requests) * workers as f64)
}

fn main() {
    let args = Args::parse();
    if let Some(kind) = args.only {
        run(kind, 1, args.requests);
        return;
    }
    let mut measured = Kind::ALL.map(|kind| Measured {
        bytes: measure_bytes(kind, args.connections),
        request: [Vec::new(), Vec::new()],
    });
    for round in 0..args.rounds {
        for (place, workers) in [1, 2].into_iter().enumerate() {
            for kind in in_round((0..Kind::ALL.len()).collect(), round) {
                let nanos = measure_request(Kind::ALL[kind], workers, args.requests);
                measured[kind].request[place].push(nanos);
            }
        }
    }
    print(&measured);
}

fn print(measured: &[Measured; 3]) {
    let [none, ..] = measured;
    let rounds = none.request[0].len();
    let header = [
        "",
        "bytes/connection",
        "added",
        "ns/request, 1 thread: added",
        "2 workers: added",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (kind, measured) in Kind::ALL.iter().zip(measured) {
        let mut row = vec![
            kind.name().to_owned(),
            format!("{:.0}", measured.bytes),
            format!("{:+.0}", measured.bytes - none.bytes),
        ];
        for (values, none) in measured.request.iter().zip(&none.request) {
            let added = values.iter().zip(none).map(|(one, none)| one - none);
            let added = Estimate::of(added.collect());
            let (low, high) = added.spread;
            row.push(format!(
                "{:.0}: {:+.0} [{low:+.0} {high:+.0}]",
                table::median(values.clone()),
                added.median,
            ));
        }
        rows.push(row);
    }
    println!(
        "Limits: idle {IDLE:?}, age {MAX_AGE:?}, grace {GRACE:?}. Nanoseconds are of processor time, for a request \
         and its client,\nmedians of {rounds} rounds [{}].\n",
        if rounds < 6 { "lowest, highest" } else { "95%" },
    );
    table::print(&rows);
}

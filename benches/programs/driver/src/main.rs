//! Database drivers that set a timeout for each operation, and a reverse proxy. `scylla.sh`, `redis.sh` and
//! `proxy.sh` start it.

mod proxy;
mod server;

use std::{
    future::Future,
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::{Parser, ValueEnum};
use futures_util::future::try_join_all;
use nix::sys::resource::{UsageWho, getrusage};
use scylla::client::{
    PoolSize, execution_profile::ExecutionProfile, session_builder::SessionBuilder,
};

const TIMEOUT: Duration = Duration::from_secs(30);

const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(4).unwrap();

#[derive(Clone, Copy, ValueEnum)]
enum Service {
    /// scylla's driver, which executes a prepared statement
    Scylla,
    /// redis' client, which gets a key
    Redis,
    /// A server for scylla's driver, which executes nothing
    Server,
    /// A reverse proxy of hyper
    Proxy,
}

#[derive(Parser)]
struct Options {
    service: Service,
    /// The address of the server
    address: String,
    /// The address of the server behind the proxy
    #[arg(required_if_eq("service", "proxy"))]
    upstream: Option<String>,
    #[arg(long, env = "WORKERS", default_value_t = 2)]
    workers: usize,
    /// How many operations run at a time
    #[arg(long, env = "TASKS", default_value_t = 256)]
    tasks: usize,
    /// How many operations run in all
    #[arg(long, env = "REQUESTS", default_value_t = 1_000_000)]
    requests: usize,
    /// Sets no timeouts, which shows the most that a timer can gain
    #[arg(long)]
    no_timeout: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.workers)
        .enable_all()
        .build()?;
    match options.service {
        Service::Scylla => runtime.block_on(scylla(&options)),
        Service::Redis => runtime.block_on(redis(&options)),
        Service::Server => server::run(&options.address),
        Service::Proxy => {
            let upstream = options.upstream.clone().unwrap_or_default();
            let run = proxy::run(options.address.clone(), upstream, options.timeout());
            // The task that accepts runs on a worker, as the tasks of the connections do.
            runtime.block_on(runtime.spawn(run))?
        }
    }
}

impl Options {
    fn timeout(&self) -> Option<Duration> {
        (!self.no_timeout).then_some(TIMEOUT)
    }
}

async fn scylla(options: &Options) -> Result<()> {
    let profile = ExecutionProfile::builder().request_timeout(options.timeout());
    let session = SessionBuilder::new()
        .known_node(&options.address)
        .fetch_schema_metadata(false)
        .pool_size(PoolSize::PerHost(CONNECTIONS))
        .default_execution_profile_handle(profile.build().into_handle())
        .build()
        .await?;
    let statement = session.prepare(server::STATEMENT).await?;
    let shared = Arc::new((session, statement));
    measure(options, |task, mut operations| {
        let shared = shared.clone();
        async move {
            let (session, statement) = &*shared;
            while operations.next() {
                session.execute_unpaged(statement, (task as i64,)).await?;
            }
            Ok(operations)
        }
    })
    .await
}

async fn redis(options: &Options) -> Result<()> {
    let client = redis::Client::open(format!("redis://{}", options.address))?;
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(options.timeout());
    let connections = (0..CONNECTIONS.get())
        .map(|_| client.get_multiplexed_async_connection_with_config(&config));
    let connections = try_join_all(connections).await?;
    measure(options, |task, mut operations| {
        let mut connection = connections[task % connections.len()].clone();
        async move {
            let mut get = redis::cmd("GET");
            get.arg("key");
            while operations.next() {
                get.query_async::<Option<i64>>(&mut connection).await?;
            }
            Ok(operations)
        }
    })
    .await
}

/// The operations of one task, which run one after the other.
struct Operations {
    left: usize,
    last: Instant,
    micros: Vec<u32>,
}

impl Operations {
    /// Ends an operation. Returns whether another one follows.
    fn next(&mut self) -> bool {
        let now = Instant::now();
        self.micros.push((now - self.last).as_micros() as u32);
        self.last = now;
        self.left -= 1;
        self.left > 0
    }
}

/// Runs the tasks, first with a tenth of the operations as a warm-up, and prints what they took.
async fn measure<F>(options: &Options, task: impl Fn(usize, Operations) -> F) -> Result<()>
where
    F: Future<Output = Result<Operations>> + Send + 'static,
{
    let run = async |requests: usize| {
        let tasks = (0..options.tasks).map(|index| {
            let left = requests / options.tasks + 1;
            let operations = Operations {
                left,
                last: Instant::now(),
                micros: Vec::with_capacity(left),
            };
            tokio::spawn(task(index, operations))
        });
        let mut micros = Vec::with_capacity(requests);
        for operations in try_join_all(tasks).await? {
            // The first entry is the start of the task.
            micros.extend_from_slice(&operations?.micros[1..]);
        }
        anyhow::Ok(micros)
    };
    run(options.requests / 10).await?;
    let (start, before) = (Instant::now(), cpu()?);
    let mut micros = run(options.requests).await?;
    let (time, cpu) = (start.elapsed().as_secs_f64(), cpu()? - before);
    let requests = micros.len();
    let (_, p99, _) = micros.select_nth_unstable(requests * 99 / 100);
    println!("requests/s: {:.0}", requests as f64 / time);
    println!("p99 ms: {:.3}", f64::from(*p99) / 1e3);
    println!("cpu us/request: {:.3}", cpu * 1e6 / requests as f64);
    Ok(())
}

fn cpu() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let time = usage.user_time() + usage.system_time();
    Ok(time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
}

//! The server of `saturated`. A frame is a request. The word of its answer is an HTTP status.
//!
//! Each request has a task of its own, as with HTTP/2. It waits for one of [`PERMITS`] permits for
//! at most [`LIMIT`], like a request that needs a database connection from a pool. Then it works
//! for [`WORK`]. A request whose word is [`HANGS`] waits for a backend that never answers, also for
//! at most [`LIMIT`].

use std::{
    future::pending,
    hint::spin_loop,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, tcp::OwnedWriteHalf},
    runtime::Runtime,
    sync::{Mutex as AsyncMutex, Semaphore},
    task::yield_now,
    time::Instant,
};

use crate::{
    child, clock, files,
    saturated::Cascade,
    serve,
    summary::quantile,
    timer::{Deadlines, Timer, with_timer},
    wire::{Frame, Frames},
};

/// How many worker threads the server has.
pub(crate) const WORKERS: u8 = 2;

/// How many requests may work at a time.
const PERMITS: usize = 16;

/// How long a request may wait.
const LIMIT: Duration = Duration::from_millis(50);

/// How long a request works.
pub(crate) const WORK: Duration = Duration::from_micros(100);

/// The number of parts of a request's work. The request yields between the parts.
const SLICES: u32 = 4;

/// The word of a request that waits for a backend that never answers.
const HANGS: u64 = 1;

/// The status of a request that was served.
pub(crate) const OK: u64 = 200;

/// The status of a request that waited too long.
const UNAVAILABLE: u64 = 503;

/// The arguments of the server.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The timer that keeps the limits.
    #[arg(long)]
    timer: Timer,
    /// How many idle timers wait beside the requests.
    #[arg(long)]
    idle: u64,
    /// The cascade that moves the idle timers.
    #[arg(long)]
    cascade: u64,
}

/// The message to the parent when the server is ready.
#[derive(Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) addr: SocketAddr,
    /// The time at which the runtime started, by [`clock::now`].
    pub(crate) born: u64,
}

/// How late timeouts fired, in nanoseconds.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Timeouts {
    pub(crate) fired: u64,
    pub(crate) early: u64,
    /// How late timeouts were, or `None` if no timeout fired.
    pub(crate) late: Option<Late>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Late {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

/// Serves until the parent closes standard input. For each line, answers how late timeouts were
/// since the line before.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    files::raise()?;
    with_timer!(args.timer, D => serve::<D>(args))
}

fn serve<D: Deadlines>(args: &Args) -> anyhow::Result<()> {
    let born = clock::now();
    let runtime = serve::runtime(WORKERS)?;
    let listener = {
        let _entered = runtime.enter();
        serve::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?
    };
    let addr = listener.local_addr()?;
    let service = Arc::new(Service::new());
    serve::spawn(&runtime, {
        let service = service.clone();
        serve::accept(listener, move |socket| {
            connection::<D>(socket, service.clone())
        })
    });
    start_idle::<D>(&runtime, args.idle, Cascade(args.cascade), born);
    child::answer(&Ready { addr, born })?;
    while let Some(()) = child::told()? {
        child::answer(&service.timeouts())?;
    }
    runtime.shutdown_background();
    Ok(())
}

/// Starts timers that do not expire during a measurement, and waits until all have started.
fn start_idle<D: Deadlines>(runtime: &Runtime, idle: u64, cascade: Cascade, born: u64) {
    let started = Arc::new(AtomicU64::new(0));
    let counter = started.clone();
    runtime.spawn(async move {
        for i in 0..idle {
            let counter = counter.clone();
            tokio::spawn(async move {
                counter.fetch_add(1, Relaxed);
                D::sleep_until(clock::instant(cascade.idle_deadline(born, i, idle))).await;
            });
        }
    });
    while started.load(Relaxed) < idle {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Serves one client.
async fn connection<D: Deadlines>(socket: TcpStream, service: Arc<Service>) -> anyhow::Result<()> {
    let (mut reader, writer) = socket.into_split();
    let writer = Arc::new(AsyncMutex::new(writer));
    let mut frames = Frames::new();
    loop {
        let read = reader.read(frames.room()).await?;
        ensure!(read > 0, "the client closed its connection");
        for frame in frames.take(read) {
            tokio::spawn(answer::<D>(frame, writer.clone(), service.clone()));
        }
    }
}

async fn answer<D: Deadlines>(
    Frame { number, word }: Frame,
    writer: Arc<AsyncMutex<OwnedWriteHalf>>,
    service: Arc<Service>,
) {
    let word = service.status::<D>(word).await;
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
    fn new() -> Self {
        Self {
            permits: Semaphore::new(PERMITS),
            late: Mutex::new(Vec::new()),
        }
    }

    /// Serves a request.
    async fn status<D: Deadlines>(&self, word: u64) -> u64 {
        let deadline = Instant::now() + LIMIT;
        let permit = D::timeout_at(deadline, async {
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
                    let late = clock::late_by(deadline);
                    let mut all = self.late.lock().unwrap_or_else(PoisonError::into_inner);
                    all.push(late);
                }
                UNAVAILABLE
            }
        }
    }

    fn timeouts(&self) -> Timeouts {
        let mut late = {
            let mut all = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *all)
        };
        late.sort_unstable();
        let early = late.partition_point(|&late| late < 0);
        let late: Vec<_> = late.into_iter().map(|late| late.max(0) as u64).collect();
        let part = |part| quantile(&late, part);
        Timeouts {
            fired: late.len() as u64,
            early: early as u64,
            late: (!late.is_empty()).then(|| Late {
                p50: part(0.5),
                p99: part(0.99),
                max: part(1.0),
            }),
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

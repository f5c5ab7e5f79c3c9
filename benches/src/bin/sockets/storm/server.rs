//! The server of `storm`, which echoes frames. The word of a frame is the time until which the
//! connection may be silent, by [`clock::now`]. The word 0 allows [`USUAL`].

use std::{
    iter,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicI64, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread,
    time::Duration,
};

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::Runtime,
    select,
    time::Instant,
};
use tokio_wheel_benches::process::cpu_time;

use crate::{
    child, clock, files, serve,
    storm::Storm,
    summary::{MS, quantile},
    timer::{Deadlines, Timer, with_timer},
    wire::{Frame, Frames},
};

/// How many worker threads the server has.
const WORKERS: u8 = 2;

/// How long an active connection may be silent.
const USUAL: Duration = Duration::from_secs(30);

/// How long to wait after the window until every limit has expired.
const PATIENCE: u64 = 10_000 * MS;

/// The arguments of the server.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The timer that keeps the limits.
    #[arg(long)]
    timer: Timer,
    /// How many limits expire in the storm.
    #[arg(long)]
    limits: u64,
    /// The limits are timers of the server that belong to no connection.
    #[arg(long)]
    own: bool,
}

/// The observations of the server during a storm. Times are in nanoseconds.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Expiries {
    /// How many limits have expired.
    pub(crate) expired: u64,
    /// How many of them expired before their deadline.
    pub(crate) early: u64,
    /// How late the limits were, or `None` if no limit has expired.
    pub(crate) late: Option<Late>,
    /// The server's CPU time within the calm window.
    pub(crate) cpu_calm: u64,
    /// The server's CPU time within the window.
    pub(crate) cpu_storm: u64,
}

/// How late limits expired, and when the last limit expired after the beginning of the storm, in
/// nanoseconds.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Late {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
    pub(crate) last: u64,
}

/// Serves for one storm.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    files::raise()?;
    with_timer!(args.timer, D => serve::<D>(args))
}

fn serve<D: Deadlines>(args: &Args) -> anyhow::Result<()> {
    let runtime = serve::runtime(WORKERS)?;
    let records = Arc::new(Records::new(args.limits));
    let listener = {
        let _entered = runtime.enter();
        serve::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?
    };
    let addr = listener.local_addr()?;
    serve::spawn(&runtime, {
        let records = records.clone();
        serve::accept(listener, move |socket| {
            connection::<D>(socket, records.clone())
        })
    });
    child::answer(&addr)?;
    if let Some(storm) = child::told::<Storm>()? {
        if args.own {
            start_timers::<D>(&runtime, storm, &records);
        }
        child::answer(&())?;
        child::answer(&observe(&storm, &records, args.timer != Timer::None))?;
        // The parent reads the answer, and then ends this process.
        child::told::<()>()?;
    }
    runtime.shutdown_background();
    Ok(())
}

/// Serves one client, until its limit expires.
async fn connection<D: Deadlines>(
    mut socket: TcpStream,
    records: Arc<Records>,
) -> anyhow::Result<()> {
    let mut frames = Frames::new();
    let mut deadline = Instant::now() + USUAL;
    let mut record = None;
    let mut limit = pin!(D::sleep_until(deadline));
    loop {
        let read = select! {
            biased;
            read = socket.read(frames.room()) => read?,
            () = &mut limit => {
                if let Some(record) = record {
                    records.expired(record, deadline);
                }
                return Ok(());
            }
        };
        ensure!(read > 0, "the client closed its connection");
        let mut answers = Vec::new();
        for frame @ Frame { number, word } in frames.take(read) {
            (deadline, record) = match word {
                0 => (Instant::now() + USUAL, None),
                until => (clock::instant(until), Some(number)),
            };
            answers.extend(frame.to_bytes());
        }
        D::reset(limit.as_mut(), deadline);
        socket.write_all(&answers).await?;
    }
}

/// Starts timers that belong to no connection, and waits until all are set.
fn start_timers<D: Deadlines>(runtime: &Runtime, storm: Storm, records: &Arc<Records>) {
    let started = Arc::new(AtomicU64::new(0));
    let (counter, records) = (started.clone(), records.clone());
    runtime.spawn(async move {
        for i in 0..storm.count {
            let (counter, records) = (counter.clone(), records.clone());
            tokio::spawn(async move {
                let deadline = clock::instant(storm.deadline(i));
                counter.fetch_add(1, Relaxed);
                D::sleep_until(deadline).await;
                records.expired(i, deadline);
            });
        }
    });
    while started.load(Relaxed) < storm.count {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Observes a storm while it happens.
fn observe(storm: &Storm, records: &Records, expires: bool) -> Expiries {
    let cpu_from = |from: u64, to: u64| {
        clock::wait_until(from);
        let cpu = cpu_time();
        clock::wait_until(to);
        (cpu_time() - cpu).as_nanos() as u64
    };
    let (from, to) = storm.calm();
    let cpu_calm = cpu_from(from, to);
    let end = storm.at + storm.window;
    let cpu_storm = cpu_from(storm.at, end);
    while expires && !records.all_expired() && clock::now() < end + PATIENCE {
        thread::sleep(Duration::from_millis(10));
    }
    records.expiries(storm, cpu_calm, cpu_storm)
}

/// How late each limit of the storm was, in nanoseconds. Negative if the limit was early, and
/// [`PENDING`] if it has not expired.
struct Records(Vec<AtomicI64>);

const PENDING: i64 = i64::MIN;

impl Records {
    fn new(count: u64) -> Self {
        let pending = iter::repeat_with(|| AtomicI64::new(PENDING));
        Self(pending.take(count as usize).collect())
    }

    fn expired(&self, i: u64, deadline: Instant) {
        let late = clock::late_by(deadline);
        self.0[i as usize].store(late, Release);
    }

    fn all_expired(&self) -> bool {
        self.0.iter().all(|late| late.load(Acquire) != PENDING)
    }

    fn expiries(&self, storm: &Storm, cpu_calm: u64, cpu_storm: u64) -> Expiries {
        let all = (0..).zip(self.0.iter().map(|late| late.load(Acquire)));
        let expired: Vec<(u64, i64)> = all.filter(|&(_, late)| late != PENDING).collect();
        let mut late: Vec<_> = expired
            .iter()
            .map(|&(_, late)| late.max(0) as u64)
            .collect();
        late.sort_unstable();
        let ends = expired
            .iter()
            .map(|&(i, late)| (storm.deadline(i) - storm.at).saturating_add_signed(late));
        Expiries {
            expired: expired.len() as u64,
            early: expired.iter().filter(|&&(_, late)| late < 0).count() as u64,
            late: ends.max().map(|last| Late {
                p50: quantile(&late, 0.5),
                p99: quantile(&late, 0.99),
                max: quantile(&late, 1.0),
                last,
            }),
            cpu_calm,
            cpu_storm,
        }
    }
}

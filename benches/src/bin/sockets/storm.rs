//! `storm` measures a server on which thousands of limits expire together while 500 connections
//! stay active. It shows how the storm delays these 500.
//!
//! The server has two workers of tokio, and echoes frames. Each connection has one limit, which each message resets.
//! When the limit expires, the server closes the socket. The active clients begin a second before the storm, and send
//! 10,000 frames a second in all, on a fixed schedule. The silent connections belong to no epoll instance, so the
//! process of the clients takes no CPU time when the server closes them.
//!
//! The window has the same length for all timers, so a long storm does not dilute a short one. The
//! clients share the cores with the server, so a round trip includes a wait for a core.

use std::{
    net::SocketAddr,
    path::PathBuf,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context as _;
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncWriteExt as _, BufStream},
    net::TcpStream,
    runtime::Runtime,
    select,
};
use tokio_wheel_benches::{lab::spawn_polled, late::Late, peer::Resets, stats::number};

use crate::{
    child::{self, Child, Role},
    clients::{Clients, FRAMES, Load},
    net::{self, BUFFER, Frame, MS},
    report::{self, Compare, Table},
    timeline::{Plot, Trips, answered, of, timeline, waits},
    timer::Timer,
};

/// How many connections are active, and how many round trips a second they make in all.
const ACTIVE: u64 = 500;
const RATE: u64 = 10_000;

/// How long before the storm the active clients begin.
const WARM_UP: u64 = 1_000 * MS;

/// How long before the storm the plot begins.
const BEFORE: u64 = 200 * MS;

/// How long after the window to wait until every limit has expired.
const EXPIRY_PATIENCE: u64 = 10_000 * MS;

/// How long an active connection may be silent.
const USUAL: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many connections to open in all.
    #[arg(long, default_value_t = 18_000, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    connections: u64,
    /// How many timers without a connection expire, in the scenes with such timers.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    timers: u64,
    /// Draw plots of the round trips over time of the storms at one instant into this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// The scenes: a name, whether the limits belong to connections, and how long storm and window last.
const SCENES: [(&str, bool, u64, u64); 4] = [
    ("instant", true, 0, 500 * MS),
    ("second", true, 1_000 * MS, 1_200 * MS),
    ("timers-instant", false, 0, 500 * MS),
    ("timers-second", false, 1_000 * MS, 1_200 * MS),
];

/// A storm, with times in nanoseconds of [`net::now`].
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Storm {
    count: u64,
    /// Whether the limits belong to connections. The others are timers of the server.
    connections: bool,
    spread: u64,
    window: u64,
    at: u64,
}

impl Storm {
    /// Returns when the `i`th limit expires.
    fn deadline(&self, i: u64) -> u64 {
        self.at + (u128::from(self.spread) * u128::from(i) / u128::from(self.count)) as u64
    }

    fn caption(&self) -> String {
        let (count, window) = (HumanCount(self.count), ms(self.window) / 1e3);
        let what = match (self.connections, self.spread) {
            (true, 0) => "connections are closed at one instant",
            (true, _) => "connections are closed within a second",
            (false, 0) => "timers without a connection fire at one instant",
            (false, _) => "timers without a connection fire within a second",
        };
        format!("{count} {what}; window of {window} s")
    }

    /// Returns the title of the plot, which says how long clients wait.
    fn title(&self, waits: &str) -> String {
        let what = match self.connections {
            true => "connections close",
            false => "timers fire",
        };
        let count = HumanCount(self.count);
        format!("{count} {what} at once: p99.9 is {waits}")
    }

    fn note(&self) -> &'static str {
        match self.connections {
            true => "Slowest round trip begun in each ms, median of the rounds. Lower is better.",
            // A wheel moves them to finer slots at the start of the coarse slot.
            false => {
                "Slowest round trip begun in each ms, median of the rounds. Lower is better. \
                 Before 0, the timing wheels sort the timers."
            }
        }
    }
}

pub(crate) fn run(args: &Args, rounds: u32) -> anyhow::Result<()> {
    let connections = args.connections;
    net::afford(connections, ACTIVE)?;
    let count = [args.timers, connections - ACTIVE];
    let storm = |(name, connections, spread, window)| {
        let storm = Storm {
            count: count[usize::from(connections)],
            connections,
            spread,
            window,
            at: 0,
        };
        (name, storm, Table::new(storm.caption()))
    };
    let mut storms = SCENES.map(storm);
    report::measure(rounds, |timers| {
        for (_, storm, table) in &mut storms {
            for &timer in timers {
                // Tries again with more time for the preparations, until the time suffices.
                let mut tries = [1, 2, 4, 8].into_iter();
                let done = tries.find_map(|time| measure(timer, time, *storm, table).transpose());
                done.context("this machine is too slow to set the timers in time")??;
            }
        }
        Ok(())
    })?;

    let rate = HumanCount(RATE);
    println!(
        "{ACTIVE} active connections make {rate} round trips a second while limits expire. {rounds} rounds.\n"
    );
    report::print(storms.iter().map(|(_, _, table)| table));
    for (name, storm, Table { trips, .. }) in &storms {
        let pooled = Timer::all().iter().map(|&timer| {
            let mut pooled = Late::default();
            of(trips, timer).for_each(|run| pooled += run.window.clone());
            format!("{} {}", timer.name(), number(pooled.ms(0.9999)))
        });
        let pooled = pooled.collect::<Vec<_>>().join(", ");
        println!("{name}, p99.99 of all rounds, ms: {pooled}");
        if let (Some(folder), 0) = (&args.svg, storm.spread) {
            let file = folder.join(format!("storm-{name}.svg"));
            Plot {
                caption: &storm.title(&waits(trips, 0.999)),
                note: storm.note(),
                source: "sockets -- storm",
                x: "when the round trip began: ms after the timers are due",
                before: BEFORE,
            }
            .draw(trips, &file)?;
        }
    }
    Ok(())
}

/// Runs a storm on a fresh server. The limits are set before the storm. Returns `None` if the time
/// for that was too short. Fails if a request got no answer.
fn measure(
    timer: Timer,
    factor: u64,
    mut storm: Storm,
    table: &mut Table,
) -> anyhow::Result<Option<()>> {
    let role = Role::StormServer(storm.count);
    let (mut server, address) = Child::start::<SocketAddr>(timer, &role)?;
    let mut active = Clients::connect(address, ACTIVE, &FRAMES)?;
    let (silent, each) = match storm.connections {
        true => (storm.count, 40_000),
        false => (0, 2_000),
    };
    let mut silent = Clients::connect(address, silent, &FRAMES)?;
    storm.at = net::now() + factor * (WARM_UP + 200 * MS + each * storm.count);
    server.ask::<()>(&storm)?;
    let set = silent.send(&Load {
        word: &|i| storm.deadline(i),
        ..Load::closed(0)
    });
    let start = storm.at - WARM_UP;
    if net::now() > start {
        // The server may already have closed connections.
        return Ok(None);
    }
    set?;
    let _silent = silent.into_streams();
    let trips = active.send(&Load {
        start,
        lasts: WARM_UP + storm.window,
        rate: Some(RATE as f64),
        ..Load::closed(0)
    })?;
    let (early, pending): (u64, u64) = server.ask(&(timer != Timer::None))?;
    let round_trips = answered(&trips)?;
    let (from, to) = (storm.at, storm.at + storm.window);
    let ends = round_trips.iter().map(|(due, time)| due + time);
    let mut ends: Vec<_> = ends.map(|end| end.clamp(from, to)).collect();
    ends.extend([from, to]);
    ends.sort_unstable();
    let silence = ends.windows(2).map(|pair| pair[1] - pair[0]).max();
    let shown = (BEFORE, BEFORE + storm.window);
    let timeline = timeline(&round_trips, [from].into_iter(), shown);
    let within = round_trips.iter().filter(|&&(due, _)| due >= from);
    let window: Late = within.map(|&(_, time)| time as i64).collect();
    let times = [
        ("round trips p50, ms", window.ms(0.5)),
        ("round trips p99, ms", window.ms(0.99)),
        ("round trips p99.9, ms", window.ms(0.999)),
        ("no answer for, ms", silence.map_or(0.0, ms)),
    ];
    let limits = [
        ("limits that expired early", early as f64),
        ("limits pending 10 s later", pending as f64),
    ];
    let times = times.map(|(name, value)| (name, Compare::Times, value));
    let limits = limits.map(|(name, value)| (name, Compare::Difference, value));
    let figures = times.into_iter().chain(limits).collect();
    table.runs.push((timer, figures));
    table.trips.push(Trips {
        timer,
        window,
        timeline,
    });
    Ok(Some(()))
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 / MS as f64
}

/// Serves for one storm: echoes frames. The word of a frame is the time until which the connection
/// may be silent, by [`net::now`]. The word 0 allows [`USUAL`].
pub(crate) fn serve<P: Resets>(runtime: &Runtime, limits: u64) -> anyhow::Result<()> {
    let records: Records = (0..limits).map(|_| AtomicU64::default()).collect();
    let address = net::accept(runtime, {
        let records = records.clone();
        move |socket| connection::<P>(socket, records.clone())
    })?;
    child::answer(&address)?;
    let storm: Storm = child::told()?;
    if !storm.connections {
        let records = records.clone();
        spawn_polled(runtime, storm.count, move |i| {
            let records = records.clone();
            async move {
                P::sleep(net::until(storm.deadline(i))).await;
                expired(&records, i);
            }
        });
    }
    child::answer(&())?;
    net::wait_until(storm.at + storm.window);
    let patience = storm.at + storm.window + EXPIRY_PATIENCE;
    let pending = || (records.iter().filter(|at| at.load(Ordering::Acquire) == 0)).count();
    let expires: bool = child::told()?;
    while expires && pending() > 0 && net::now() < patience {
        thread::sleep(Duration::from_millis(10));
    }
    let early =
        |&(i, at): &(u64, &AtomicU64)| (1..storm.deadline(i)).contains(&at.load(Ordering::Acquire));
    let early = (0..).zip(records.iter()).filter(early).count();
    let missing = if expires { pending() } else { 0 };
    child::answer(&(early, missing))?;
    // The parent reads the answer, and then kills this process.
    child::told()
}

/// The time at which each limit of the storm expired. 0 if it has not expired.
type Records = Arc<[AtomicU64]>;

fn expired(records: &Records, i: u64) {
    records[i as usize].store(net::now(), Ordering::Release);
}

/// Serves one client, until its limit expires.
pub(crate) async fn connection<P: Resets>(
    socket: TcpStream,
    records: Records,
) -> anyhow::Result<()> {
    let mut socket = BufStream::with_capacity(BUFFER, BUFFER, socket);
    let mut record = None;
    let mut limit = pin!(P::new_sleep(USUAL));
    loop {
        let frame = select! {
            biased;
            frame = Frame::read(&mut socket) => frame?,
            _ = &mut limit => {
                if let Some(record) = record {
                    expired(&records, record);
                }
                return Ok(());
            }
        };
        let silent = match frame.word {
            0 => USUAL,
            until => net::until(until),
        };
        record = (frame.word > 0).then_some(frame.number);
        P::reset(limit.as_mut(), silent);
        socket.write_all(&frame.to_bytes()).await?;
        socket.flush().await?;
    }
}

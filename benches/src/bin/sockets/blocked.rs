//! `blocked` measures a server beside a task that blocks one of its workers again and again.
//!
//! Four connections make 800 round trips a second in all, on a fixed schedule, and other tasks sleep for 10 ms each. The
//! task that blocks is woken by `tokio::time` with every timer, so all timers meet the same blocks.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::{runtime::Runtime, time::sleep_until};
use tokio_wheel_benches::{
    late::{Late, late_by},
    peer::Resets,
};

use crate::{
    child::{self, Child, Role},
    clients::{Clients, FRAMES, Load},
    net::{self, MS},
    report::{self, Compare, Table},
    storm::connection,
    timeline::{Plot, Trips, answered, timeline, waits},
    timer::Timer,
};

const CLIENTS: u64 = 4;
const RATE: f64 = 800.0;

/// The tasks that sleep, and for how long each time.
const SLEEPERS: usize = 4;
const SLEEP: Duration = Duration::from_millis(10);

/// How long before a block its plot begins, and how long after the block it ends.
const AROUND: u64 = 50 * MS;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The numbers of workers to measure, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8])]
    workers: Vec<usize>,
    /// Draw a plot of the round trips over time, of the first row, into this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// A task blocks so often, in milliseconds, with a pause after each block. Times by [`net::now`].
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Blocks {
    pub(crate) workers: usize,
    length: u64,
    pause: u64,
    count: u64,
    at: u64,
}

impl Blocks {
    /// Returns when each block begins.
    fn starts(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |block| self.at + block * (self.length + self.pause) * MS)
    }
}

pub(crate) fn run(args: &Args, rounds: u32) -> anyhow::Result<()> {
    let mut scenes = Vec::new();
    // The second one is a password hash in a handler.
    for (length, pause, count) in [(300, 7, 6), (50, 150, 10)] {
        scenes.extend(args.workers.iter().map(|&workers| {
            let blocks = Blocks {
                workers,
                length,
                pause,
                count,
                at: 0,
            };
            let caption = format!("{workers} workers; a task blocks {length} ms, {pause} ms apart");
            (blocks, Table::new(caption))
        }));
    }
    report::measure(rounds, |timers| {
        for (blocks, table) in &mut scenes {
            for &timer in timers {
                measure(timer, *blocks, table)?;
            }
        }
        Ok(())
    })?;
    println!("{CLIENTS} connections make {RATE} round trips a second. {rounds} rounds.\n");
    report::print(scenes.iter().map(|(_, table)| table));
    if let (Some(folder), [(blocks, table), ..]) = (&args.svg, &scenes[..]) {
        let (length, waits) = (blocks.length, waits(&table.trips, 1.0));
        Plot {
            caption: &format!("A task blocks for {length} ms: clients wait up to {waits}"),
            note: &format!(
                "Slowest round trip begun in each ms, {} workers. \
                 The previous block ended at -{} ms. Without timeouts, tokio is as slow.",
                blocks.workers, blocks.pause
            ),
            source: "sockets -- blocked",
            x: "when the round trip began: ms after the block begins",
            before: AROUND,
        }
        .draw(&table.trips, &folder.join("blocking.svg"))?;
    }
    Ok(())
}

fn measure(timer: Timer, mut blocks: Blocks, table: &mut Table) -> anyhow::Result<()> {
    let role = Role::BlockedServer(blocks.workers);
    let (mut server, address) = Child::start::<SocketAddr>(timer, &role)?;
    let mut clients = Clients::connect(address, CLIENTS, &FRAMES)?;
    clients.send(&Load::closed(0))?;
    blocks.at = net::now() + 200 * MS;
    server.ask::<()>(&blocks)?;
    let trips = clients.send(&Load {
        start: blocks.at - AROUND,
        lasts: blocks.count * (blocks.length + blocks.pause) * MS + 2 * AROUND,
        rate: Some(RATE),
        ..Load::closed(0)
    })?;
    let trips = answered(&trips)?;
    let around = (AROUND, 2 * AROUND + blocks.length * MS);
    let timeline = timeline(&trips, blocks.starts(), around);
    let window: Late = trips.iter().map(|&(_, time)| time as i64).collect();
    let (late, latest): (f64, f64) = server.ask(&())?;
    let figures = [
        ("round trips p50, ms", window.ms(0.5)),
        ("round trips p90, ms", window.ms(0.9)),
        ("round trips p99, ms", window.ms(0.99)),
        ("round trips worst, ms", window.ms(1.0)),
        ("sleeps of 10 ms: p99 late, ms", late),
        ("sleeps of 10 ms: worst, ms", latest),
    ];
    let figures = figures.map(|(name, ms)| (name, Compare::Times, ms));
    table.runs.push((timer, figures.into()));
    table.trips.push(Trips {
        timer,
        window,
        timeline,
    });
    Ok(())
}

/// Serves for one run: echoes frames, sleeps, and blocks.
pub(crate) fn serve<P: Resets>(runtime: &Runtime) -> anyhow::Result<()> {
    let address = net::accept(runtime, |socket| connection::<P>(socket, Arc::default()))?;
    child::answer(&address)?;
    let blocks: Blocks = child::told()?;
    let late = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..SLEEPERS {
        let late = late.clone();
        runtime.spawn(async move {
            loop {
                let deadline = Instant::now() + SLEEP;
                P::sleep(SLEEP).await;
                late.lock().unwrap().push(late_by(deadline));
            }
        });
    }
    runtime.spawn(async move {
        for start in blocks.starts() {
            sleep_until((Instant::now() + net::until(start)).into()).await;
            thread::sleep(Duration::from_millis(blocks.length));
        }
    });
    child::answer(&())?;
    child::told::<()>()?;
    let late: Late = late.lock().unwrap().drain(..).collect();
    child::answer(&(late.ms(0.99), late.ms(1.0)))?;
    // The parent reads the answer, and then kills this process.
    child::told()
}

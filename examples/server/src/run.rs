//! Measures one run: the server on one runtime, and its clients on another.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Handle, Runtime},
    select,
    sync::watch,
    task::{JoinError, JoinHandle, JoinSet},
    time::{Instant, interval, sleep_until},
};

use crate::{
    clients::{Left, Shared, client},
    figures::Lateness,
    os,
    plan::{Plan, Role, STORM, Schedule},
    report::Report,
    server::{End, serve},
    sessions,
    timers::Timers,
};

/// How many clients share a listener. Each client needs a local port of its own toward its
/// listener, and some systems offer only 16,384. The same local ports are free again toward another
/// listener.
const CLIENTS_PER_LISTENER: usize = 16_000;

/// How long the last connections and sessions may take to end after the storm.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the server on the timers `T`. Returns `None` if an interrupt came before there was anything
/// to measure.
pub(crate) fn run<T: Timers>(
    plan: &Plan,
    label: &str,
    interrupt: watch::Receiver<bool>,
) -> Result<Option<Report>, String> {
    let server = runtime("server")?;
    let clients = runtime("clients")?;
    let bar = ProgressBar::new(0); // The bar hides itself if stderr is no terminal.
    bar.set_prefix(label.to_owned());
    let outcome = clients.block_on(measure::<T>(plan, server.handle(), &bar, interrupt));
    bar.finish_and_clear();
    outcome
}

fn runtime(name: &str) -> Result<Runtime, String> {
    Builder::new_multi_thread()
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime could be started: {error}"))
}

async fn measure<T: Timers>(
    plan: &Plan,
    on: &Handle,
    bar: &ProgressBar,
    mut interrupt: watch::Receiver<bool>,
) -> Result<Option<Report>, String> {
    let server = Server::start::<T>(plan, on).await?;

    let (go, wait) = watch::channel(None);
    let shared = Shared::new(*plan, wait);
    let mut clients = JoinSet::new();
    let mut talkers = Vec::new();
    for number in 0..plan.connections {
        let address = server.addresses[number / CLIENTS_PER_LISTENER];
        let task = clients.spawn(client(number, address, Arc::clone(&shared)));
        if matches!(plan.role(number), Role::Talks) {
            talkers.push(task);
        }
    }
    select! {
        connected = all_connected(plan, &shared, &mut clients, bar) => connected?,
        _ = interrupt.wait_for(|interrupted| *interrupted) => return Ok(None),
    }
    let (schedule, sessions) = select! {
        opened = open_sessions::<T>(plan, on) => opened?,
        _ = interrupt.wait_for(|interrupted| *interrupted) => return Ok(None),
    };

    // The calm, then the storm, then the last connections and sessions.
    let Schedule { start, herd, storm } = schedule;
    server.ended.storm.get_or_init(|| storm);
    go.send_replace(Some(schedule));
    let before = os::usage();
    let mut calm = None;
    let mut departures = Departures::default();
    let mut interrupted = false;
    bar.set_style(style("{prefix} {bar:10} {wide_msg}"));
    bar.set_position(0);
    bar.set_length((storm + STORM - start).as_millis() as u64);
    let mut tick = interval(Duration::from_millis(50));
    let mut calm_ends = pin!(sleep_until(herd));
    loop {
        select! {
            biased;
            _ = interrupt.wait_for(|interrupted| *interrupted) => {
                interrupted = true;
                break;
            }
            () = calm_ends.as_mut(), if calm.is_none() => {
                calm = Some((herd - start, os::usage().since(&before)));
            }
            _ = tick.tick() => {
                show(bar, plan, start.elapsed(), shared.calm.len(), departures.closed);
                let passed = storm.elapsed();
                let closed = departures.closed + departures.dropped;
                let all = sessions.fired() == plan.sessions
                    && closed >= plan.silent() + plan.idle();
                if passed > 2 * STORM && all || passed > plan.limits.idle + PATIENCE {
                    break;
                }
            }
            Some(left) = clients.join_next() => departures.count(left),
        }
    }
    let (measured, used) = calm.unwrap_or_else(|| (start.elapsed(), os::usage().since(&before)));
    let counts = on.spawn(async { T::counts() }).await.unwrap_or(None);

    // Ends the talking clients, so the server need not wait for them.
    for talker in talkers {
        talker.abort();
    }
    clients.shutdown().await;
    let ended = server.stop().await;
    Ok(Some(Report {
        interrupted,
        measured,
        used,
        calm: shared.calm.copy(),
        storm: shared.storm.copy(),
        closed: departures.closed,
        dropped: departures.dropped,
        silent: ended.silent.copy(),
        idle: ended.idle.copy(),
        sessions: sessions.copy(),
        counts,
    }))
}

/// Waits until all clients have had a reply. Fails if one of them never gets through.
async fn all_connected(
    plan: &Plan,
    shared: &Shared,
    clients: &mut JoinSet<io::Result<Left>>,
    bar: &ProgressBar,
) -> Result<(), String> {
    let mut tick = interval(Duration::from_millis(20));
    bar.set_style(style("{prefix} {bar:10} {pos} of {len} clients connected"));
    bar.set_length(plan.connections as u64);
    while shared.connected() < plan.connections {
        select! {
            _ = tick.tick() => bar.set_position(shared.connected() as u64),
            Some(left) = clients.join_next() => {
                let why = match left {
                    Ok(Err(error)) => error.to_string(),
                    Ok(Ok(_)) => "the server closed a connection".to_owned(),
                    Err(error) => error.to_string(),
                };
                return Err(format!(
                    "only {} of {} clients got through to the server ({why}); \
                     try fewer with --connections",
                    shared.connected(),
                    plan.connections,
                ));
            }
        }
    }
    Ok(())
}

/// Opens the sessions, then waits for the start. All sessions must wait before the calm begins.
async fn open_sessions<T: Timers>(
    plan: &Plan,
    on: &Handle,
) -> Result<(Schedule, Arc<Lateness>), String> {
    let opening = Instant::now();
    let time = sessions::time_to_open(plan.sessions);
    let herd = opening + time + plan.calm;
    let storm = herd + plan.limits.idle;
    let ended = Arc::new(Lateness::new());
    on.spawn(sessions::open::<T>(
        plan.sessions,
        storm,
        Arc::clone(&ended),
    ))
    .await
    .map_err(|error| format!("the sessions did not open: {error}"))?;
    if opening.elapsed() > time + plan.calm / 2 {
        return Err(format!(
            "{} sessions took {:.1} s to open, more than the run has; try fewer with --sessions",
            HumanCount(plan.sessions as u64),
            opening.elapsed().as_secs_f64(),
        ));
    }
    let start = Instant::now().max(opening + time);
    sleep_until(start).await;
    Ok((Schedule { start, herd, storm }, ended))
}

/// The server's tasks, and how their connections ended.
struct Server {
    addresses: Vec<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
    /// The server stops when this is dropped.
    running: watch::Sender<()>,
    ended: Arc<Ended>,
}

/// The lateness of the idle limits that closed a connection.
struct Ended {
    storm: OnceLock<Instant>,
    /// For connections that fell silent one by one.
    silent: Lateness,
    /// For connections that expired in the storm.
    idle: Lateness,
}

impl Ended {
    fn add(&self, end: &End) {
        if let End::Idle { deadline, fired } = *end {
            let in_storm = self.storm.get().is_some_and(|storm| deadline >= *storm);
            let part = if in_storm { &self.idle } else { &self.silent };
            part.add(0, deadline, fired);
        }
    }
}

impl Server {
    async fn start<T: Timers>(plan: &Plan, on: &Handle) -> Result<Self, String> {
        let (running, stop) = watch::channel(());
        let ended = Arc::new(Ended {
            storm: OnceLock::new(),
            silent: Lateness::new(),
            idle: Lateness::new(),
        });
        let (mut tasks, mut addresses) = (Vec::new(), Vec::new());
        for _ in 0..plan.connections.div_ceil(CLIENTS_PER_LISTENER) {
            let unavailable = |error| format!("no port to listen on at 127.0.0.1: {error}");
            let listener = on
                .spawn(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
                .await
                .unwrap_or_else(|error| Err(error.into()))
                .map_err(unavailable)?;
            addresses.push(listener.local_addr().map_err(unavailable)?);
            let mut stop = stop.clone();
            let stop = async move { while stop.changed().await.is_ok() {} };
            let ended = Arc::clone(&ended);
            let limits = plan.limits;
            tasks.push(on.spawn(serve::<T>(listener, limits, stop, move |end| {
                ended.add(&end);
            })));
        }
        Ok(Self {
            addresses,
            tasks,
            running,
            ended,
        })
    }

    async fn stop(self) -> Arc<Ended> {
        drop(self.running);
        for task in self.tasks {
            let _ = task.await;
        }
        self.ended
    }
}

/// The clients that left because the server closed their connection.
#[derive(Default)]
struct Departures {
    closed: usize,
    dropped: usize,
}

impl Departures {
    fn count(&mut self, left: Result<io::Result<Left>, JoinError>) {
        match left {
            Ok(Ok(Left::ClosedSilent)) => self.closed += 1,
            Err(error) if error.is_cancelled() => {}
            _ => self.dropped += 1,
        }
    }
}

fn show(bar: &ProgressBar, plan: &Plan, elapsed: Duration, messages: u64, closed: usize) {
    bar.set_position(elapsed.as_millis() as u64);
    let calm = elapsed.min(plan.calm).as_secs_f64().max(0.001);
    bar.set_message(format!(
        "{} messages/s, {} of {} silent clients closed",
        HumanCount((messages as f64 / calm) as u64),
        HumanCount(closed as u64),
        HumanCount((plan.silent() + plan.idle()) as u64),
    ));
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates above are well-formed")
}

//! One measured run: a runtime of its own, the server and its clients on it.

use std::{
    io, mem,
    net::Ipv4Addr,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use tokio::{
    net::TcpListener,
    runtime::Builder,
    select,
    sync::watch,
    task::{JoinError, JoinSet},
    time::{Instant, interval, sleep, sleep_until},
};

use crate::{
    clients::{Left, Shared, client},
    os,
    report::{Closed, Report},
    server::{Limits, serve},
    timers::Timers,
};

/// How many clients share a listener. Each needs a local port of its own towards it, and systems
/// have as few as 16,384 to give; towards another listener the same ports serve again.
const CLIENTS_PER_LISTENER: usize = 16_000;

/// How long beyond the idle limit the last silent clients may take to be closed.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// How many of the connections fall silent.
    pub(crate) silent: usize,
    pub(crate) seconds: Duration,
    pub(crate) think: Duration,
    pub(crate) limits: Limits,
}

impl Plan {
    /// How long after the start client `number` falls silent, if it does.
    ///
    /// The silent ones are spread evenly over the clients and over the run, but for its end, where
    /// the server would have no time left to close them.
    pub(crate) fn silent_from(&self, number: usize) -> Option<Duration> {
        let before = number * self.silent / self.connections;
        let with_it = (number + 1) * self.silent / self.connections;
        let slack = (self.seconds / 10).min(Duration::from_secs(1));
        let window = self.seconds.saturating_sub(self.limits.idle + slack);
        (with_it > before).then(|| window.mul_f64((before as f64 + 0.5) / self.silent as f64))
    }
}

/// Runs the server on the timers `T`. `None` if interrupted before there was anything to measure.
pub(crate) fn run<T: Timers>(
    plan: &Plan,
    timer: &'static str,
    label: &str,
    interrupt: watch::Receiver<bool>,
) -> Result<Option<Report>, String> {
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime did not start: {error}"))?;
    let bar = ProgressBar::new(0); // Hidden by itself where stderr is no terminal.
    bar.set_prefix(label.to_owned());
    let outcome = runtime.block_on(measure::<T>(plan, timer, &bar, interrupt));
    bar.finish_and_clear();
    outcome
}

async fn measure<T: Timers>(
    plan: &Plan,
    timer: &'static str,
    bar: &ProgressBar,
    mut interrupt: watch::Receiver<bool>,
) -> Result<Option<Report>, String> {
    // The server, which stops when `running` is dropped.
    let (running, stop) = watch::channel(());
    let closed = Arc::new(Mutex::new(Closed::default()));
    let mut servers = JoinSet::new();
    let mut addresses = Vec::new();
    for _ in 0..plan.connections.div_ceil(CLIENTS_PER_LISTENER) {
        let unavailable = |error| format!("no port to listen on at 127.0.0.1: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(unavailable)?;
        addresses.push(listener.local_addr().map_err(unavailable)?);
        let mut stop = stop.clone();
        let stop = async move { while stop.changed().await.is_ok() {} };
        let closed = Arc::clone(&closed);
        let ended = move |end| {
            closed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .count(end);
        };
        servers.spawn(serve::<T>(listener, plan.limits, stop, ended));
    }

    // The clients, and how they fare until they are all connected.
    let (go, wait) = watch::channel(None);
    let shared = Shared::new(plan.clone(), wait);
    let mut clients = JoinSet::new();
    let mut talkers = Vec::new();
    for number in 0..plan.connections {
        let address = addresses[number / CLIENTS_PER_LISTENER];
        let task = clients.spawn(client(number, address, Arc::clone(&shared)));
        if plan.silent_from(number).is_none() {
            talkers.push(task);
        }
    }
    let mut tick = interval(Duration::from_millis(20));
    bar.set_style(style("{prefix} {bar:10} {pos} of {len} clients connected"));
    bar.set_length(plan.connections as u64);
    while shared.connected() < plan.connections {
        select! {
            _ = tick.tick() => bar.set_position(shared.connected() as u64),
            _ = interrupt.wait_for(|interrupted| *interrupted) => return Ok(None),
            Some(left) = clients.join_next() => {
                let why = match left {
                    Ok(Err(error)) => error.to_string(),
                    Ok(Ok(_)) => "the server closed a connection".to_owned(),
                    Err(error) => error.to_string(),
                };
                return Err(format!(
                    "only {} of {} clients got through to the server ({why}). \
                     Try fewer with --connections.",
                    shared.connected(),
                    plan.connections,
                ));
            }
        }
    }

    // The run.
    let start = Instant::now();
    let cpu = os::cpu_time();
    go.send_replace(Some(start));
    let mut departures = Departures::default();
    let mut interrupted = false;
    bar.set_style(style("{prefix} {bar:10} {wide_msg}"));
    bar.set_position(0);
    bar.set_length(plan.seconds.as_millis() as u64);
    let mut tick = interval(Duration::from_millis(100));
    let mut end = pin!(sleep_until(start + plan.seconds));
    loop {
        select! {
            biased;
            () = end.as_mut() => break,
            _ = interrupt.wait_for(|interrupted| *interrupted) => {
                interrupted = true;
                break;
            }
            _ = tick.tick() => {
                show(bar, plan, start.elapsed(), shared.messages(), departures.closed_silent);
            }
            Some(left) = clients.join_next() => departures.count(left),
        }
    }
    let measured = start.elapsed();
    let cpu = os::cpu_time()
        .zip(cpu)
        .map(|(after, before)| after - before);
    let round_trips = shared.round_trips();

    // Everybody goes home: the talkers hang up, and the last silent clients are closed, which may
    // not have happened yet where the processor is short. Then the server has nobody to wait for.
    for talker in talkers {
        talker.abort();
    }
    let mut give_up = pin!(sleep(plan.limits.idle + PATIENCE));
    while !interrupted {
        select! {
            biased;
            left = clients.join_next() => match left {
                Some(left) => departures.count(left),
                None => break,
            },
            _ = interrupt.wait_for(|interrupted| *interrupted) => interrupted = true,
            () = give_up.as_mut() => break,
        }
    }
    clients.shutdown().await;
    drop(running);
    while servers.join_next().await.is_some() {}

    let closed = mem::take(&mut *closed.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Some(Report {
        timer,
        plan: plan.clone(),
        interrupted,
        measured,
        cpu,
        round_trips,
        closed_silent: departures.closed_silent,
        dropped: departures.dropped,
        closed,
        counts: T::counts(),
    }))
}

/// The clients that left of the server's will rather than their own.
#[derive(Default)]
struct Departures {
    closed_silent: usize,
    dropped: usize,
}

impl Departures {
    fn count(&mut self, left: Result<io::Result<Left>, JoinError>) {
        match left {
            Ok(Ok(Left::ClosedSilent)) => self.closed_silent += 1,
            Err(error) if error.is_cancelled() => {}
            _ => self.dropped += 1,
        }
    }
}

fn show(bar: &ProgressBar, plan: &Plan, elapsed: Duration, messages: u64, closed_silent: usize) {
    bar.set_position(elapsed.as_millis() as u64);
    bar.set_message(format!(
        "{} messages/s, {} of {} silent closed",
        HumanCount((messages as f64 / elapsed.as_secs_f64()) as u64),
        HumanCount(closed_silent as u64),
        HumanCount(plan.silent as u64),
    ));
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates above are well-formed")
}

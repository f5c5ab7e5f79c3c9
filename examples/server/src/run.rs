//! Measures one run: the server on one runtime, and its clients on another.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    net::TcpListener,
    runtime::{Builder, Handle, Runtime},
    sync::{oneshot, watch},
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout_at},
};

use crate::{
    load::{Plan, STORM, Schedule, Shared, Times, client, open_sessions},
    report::Run,
    server::{End, serve},
    timers::Timers,
};

/// How long the last connections and sessions may take to end after the storm.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the server on the timers `T`.
pub(crate) fn run<T: Timers>(plan: &Plan) -> Result<Run, String> {
    let error = |error: io::Error| format!("the run did not start: {error}");
    let (server, clients) = (
        runtime("server").map_err(error)?,
        runtime("clients").map_err(error)?,
    );
    clients.block_on(measure::<T>(plan, server.handle()))
}

fn runtime(name: &str) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name(name)
        .enable_all()
        .build()
}

async fn measure<T: Timers>(plan: &Plan, server: &Handle) -> Result<Run, String> {
    // How late idle limits closed connections.
    let ended = Arc::new(Times::new());
    let (running, stop) = oneshot::channel::<()>();
    let (listener, address) = listen(server).await.map_err(|error| error.to_string())?;
    let stop = async { drop(stop.await) };
    let serving = server.spawn(serve::<T>(listener, plan.limits, stop, {
        let ended = ended.clone();
        move |end| {
            if let End::Idle { deadline, fired } = end {
                ended.add(0, deadline, fired);
            }
        }
    }));

    let (go, wait) = watch::channel(None);
    let shared = Shared::new(*plan, wait);
    let mut clients = JoinSet::new();
    for number in 0..plan.connections {
        clients.spawn(client(number, address, shared.clone()));
    }
    while shared.connected.load(Relaxed) < plan.connections {
        if let Some(left) = clients.try_join_next() {
            return Err(format!(
                "a client did not get through to the server: {left:?}"
            ));
        }
        sleep(Duration::from_millis(5)).await;
    }

    // All sessions must wait before the calm begins. On an idle machine, opening takes far less.
    let start = Instant::now() + Duration::from_micros(2) * plan.sessions as u32;
    let (herd, sessions) = (start + plan.calm, Arc::new(Times::new()));
    let storm = herd + plan.limits.idle;
    let opened = server
        .spawn(open_sessions::<T>(plan.sessions, storm, sessions.clone()))
        .await;
    if opened.is_err() || Instant::now() > start + plan.calm / 2 {
        return Err("the sessions took too long to open: try fewer with --sessions".to_owned());
    }
    let start = start.max(Instant::now());
    sleep_until(start).await;

    // The calm, then the storm, then the last connections and sessions.
    go.send_replace(Some(Schedule { start, herd, storm }));
    let (mut closed, mut dropped) = (0, 0);
    let patience = storm + plan.limits.idle + PATIENCE;
    let all_closed = async {
        while closed + dropped < plan.idle() {
            match clients.join_next().await {
                Some(Ok(Ok(true))) => closed += 1,
                _ => dropped += 1,
            }
        }
        while (sessions.sum().len() as usize) < plan.sessions {
            sleep(Duration::from_millis(20)).await;
        }
    };
    // What has not ended by then counts as forgotten.
    let _ = timeout_at(patience, all_closed).await;
    sleep_until(storm + 2 * STORM).await;

    // Ends the talking clients, so the server need not wait for them.
    clients.shutdown().await;
    drop(running);
    let _ = serving.await;
    Ok(Run {
        calm: shared.round_trips[0].sum(),
        storm: shared.round_trips[1].sum(),
        closed,
        dropped,
        early: ended.early() + sessions.early(),
        idle: ended.sum(),
        sessions: sessions.sum(),
    })
}

/// Listens on the server's runtime.
pub(crate) async fn listen(server: &Handle) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = server
        .spawn(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .await??;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

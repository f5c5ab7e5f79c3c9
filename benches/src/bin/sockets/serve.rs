//! `serve` measures what `tokio_wheel_util::serve` and its limits cost beside `axum::serve`, in CPU time for each request.
//!
//! A server has one worker, which is pinned to a CPU, and this process is pinned to another. The servers take short turns, as
//! in [`calm`](crate::calm).

use std::time::Duration;

use axum::{Router, body::Body, extract::Path, http::StatusCode, response::Response, routing::get};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio_wheel_benches::{
    lab, machine,
    peer::Tokio,
    process::cpu_time,
    stats::{in_round, median, number, print_table},
};
use tokio_wheel_util::{
    http::TimeoutLayer,
    hyper::{Connections, Limits},
    serve,
};

use crate::{
    calm::HTTP,
    child::{self, Child, Role},
    clients::{Clients, Load},
    net::MS,
    report::Compare,
    timer::Timer,
};

const HEAD: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(60);
const AGE: Duration = Duration::from_secs(600);
const REQUEST: Duration = Duration::from_secs(30);

const BUSY: u64 = 256;
const TURNS: u32 = 8;
const TURN: u64 = 250 * MS;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Server {
    Axum,
    NoLimits,
    ConnectionLimits,
    AllLimits,
}

const SERVERS: [(Server, &str); 4] = [
    (Server::Axum, "axum::serve"),
    (Server::NoLimits, "serve"),
    (
        Server::ConnectionLimits,
        "serve with limits for heads, idle time and age",
    ),
    (
        Server::AllLimits,
        "serve with these limits and one for each request",
    ),
];

pub(crate) fn run(rounds: u32) -> anyhow::Result<()> {
    machine::warn();
    println!(
        "Machine: {}. {} rounds of {TURNS} turns.\n",
        machine::name(),
        rounds
    );
    let cpus = lab::cores();
    let (clients, server) = (cpus[0], cpus[1 % cpus.len()]);
    lab::pin(clients);
    let mut runs = SERVERS.map(|_| Vec::new());
    for round in 0..rounds {
        let order = in_round((0..SERVERS.len()).collect(), round);
        let started = order
            .iter()
            .map(|&number| Cell::start(SERVERS[number].0, server));
        let mut cells = started.collect::<anyhow::Result<Vec<_>>>()?;
        for _ in 0..TURNS {
            cells.iter_mut().try_for_each(Cell::turn)?;
        }
        for (number, cell) in order.into_iter().zip(cells) {
            runs[number].push(cell.cpu.as_secs_f64() * 1e6 / cell.requests as f64);
        }
    }
    let head = ["", "CPU per request, us", "compared with axum::serve"];
    let caption = format!("One request after the other on each of {BUSY} connections, one worker");
    let mut rows = vec![head.map(str::to_owned).to_vec(), vec![caption]];
    for ((_, name), run) in SERVERS.iter().zip(&runs) {
        let rounds = runs[0].iter().copied().zip(run.iter().copied());
        let cpu = number(median(run.iter().copied()));
        rows.push(vec![format!("  {name}"), cpu, Compare::Times.text(rounds)]);
    }
    print_table(&rows);
    Ok(())
}

struct Cell {
    server: Child,
    busy: Clients,
    requests: usize,
    cpu: Duration,
}

impl Cell {
    fn start(server: Server, cpu: usize) -> anyhow::Result<Self> {
        let (server, address) = Child::start(Timer::Wheel, &Role::AxumServer(server, cpu))?;
        let mut busy = Clients::connect(address, BUSY, &HTTP)?;
        busy.send(&Load::closed(TURN))?;
        Ok(Self {
            server,
            busy,
            requests: 0,
            cpu: Duration::ZERO,
        })
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let before: Duration = self.server.ask(&())?;
        self.requests += self.busy.send(&Load::closed(TURN))?.len();
        let after: Duration = self.server.ask(&())?;
        self.cpu += after - before;
        Ok(())
    }
}

/// Serves with axum and keep-alive until the parent ends. For each line, answers how much CPU time was used so far.
pub(crate) fn be_server(server: Server, cpu: usize) -> anyhow::Result<()> {
    lab::pin(cpu);
    let runtime = lab::unbound_runtime_for::<Tokio>(1);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let answer = async |Path(number): Path<String>| Response::new(Body::from(number));
    let mut app = Router::new().route("/{number}", get(answer));
    if server == Server::AllLimits {
        let status = StatusCode::GATEWAY_TIMEOUT;
        app = app.layer(TimeoutLayer::with_status_code(status, REQUEST));
    }
    runtime.spawn(async move {
        let served = match server {
            Server::Axum => axum::serve(listener, app).await,
            Server::NoLimits => serve(listener, app).await,
            Server::ConnectionLimits | Server::AllLimits => {
                let connections = Connections::new(Limits::new().idle(IDLE).max_age(AGE));
                let served = serve(listener, app).connections(&connections);
                served.header_timeout(HEAD).await
            }
        };
        panic!("the server ended: {served:?}");
    });
    child::answer(&address)?;
    loop {
        child::told::<()>()?;
        child::answer(&cpu_time())?;
    }
}

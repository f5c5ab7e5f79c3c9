//! `calm` measures what the limits of a hyper server cost while none of them expires.
//!
//! In each round, every timer has a fresh server with connections of its own, and the servers take
//! short turns. So a change of the machine that lasts longer than a turn affects all timers.
//!
//! In the first turns, 256 connections make one request after the other. In the other turns, the
//! requests come at a fixed rate, whether the server answers or not. The rest of the connections
//! are silent. They belong to a process of their own, because no process may open so many files.
//!
//! The limits of a connection are set as users of each timer would set them: for the head by
//! `WheelTimer` or hyper-util's `TokioTimer`, for a request by `timeout`, and for idle time by
//! `io::TimeoutStream` or [`Idle`], which is the simplest code that keeps it on `tokio::time`.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use indicatif::HumanCount;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    runtime::Runtime,
    sync::{mpsc, oneshot},
    time::{self, Sleep, sleep},
};
use tokio_wheel_benches::{
    late::Late,
    peer::{Bare, Resets, Tokio, TokioAlt, TokioWheel},
    process::{cpu_time, resident_bytes},
};
use tokio_wheel_util::{hyper::WheelTimer, io::TimeoutStream};

use crate::{
    child::{self, Child, Role},
    clients::{Clients, Load, Protocol},
    net::{self, Frame, MS},
    report::{self, Compare, Figure, Table},
    timer::Timer,
};

/// How long a handler may take, how long no byte may move, and how long the head of a request may
/// take. hyper counts the wait for the head too.
const REQUEST: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(60);
const HEAD: Duration = Duration::from_secs(90);

const BUSY: u64 = 256;

/// The rates of the requests, as parts of the capacity. Before them is a closed loop.
const RATES: [f64; 3] = [0.5, 0.7, 0.9];
const LOADS: usize = 1 + RATES.len();

/// How many turns each load has in a round, how long a turn lasts, and how long its load runs
/// before it. A round must end before the silent connections reach [`IDLE`].
const TURNS: u32 = 2;
const TURN: u64 = 500 * MS;
const WARM_UP: u64 = 100 * MS;

/// How long a server may free and read memory after all clients are connected.
const SETTLE: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many connections to open in all.
    #[arg(long, default_value_t = 18_000, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    connections: u64,
    /// The capacity in requests per second, instead of the measured capacity.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    capacity: Option<u32>,
}

pub(crate) fn run(args: &Args, rounds: u32) -> anyhow::Result<()> {
    let connections = args.connections;
    net::afford(connections, BUSY)?;
    let capacity = match args.capacity {
        Some(capacity) => capacity.into(),
        None => Cell::start(Timer::None, connections)?.busy.capacity()?,
    };
    let mut rates = vec![None];
    let closed = "One request after the other on each busy connection";
    let mut tables = vec![Table::new(closed.to_owned())];
    for part in RATES {
        let rate = part * capacity;
        rates.push(Some(rate));
        let rate = HumanCount(rate as u64);
        let caption = format!("{part} of the capacity: {rate} requests a second");
        tables.push(Table::new(caption));
    }
    report::measure(rounds, |timers| {
        let begin = Instant::now();
        let cells = timers.iter().map(|&timer| Cell::start(timer, connections));
        let mut cells = cells.collect::<anyhow::Result<Vec<_>>>()?;
        for _ in 0..TURNS {
            for (load, &rate) in rates.iter().enumerate() {
                for cell in &mut cells {
                    cell.turn(load, rate)?;
                }
            }
        }
        ensure!(
            begin.elapsed() < IDLE,
            "this machine is too slow: a round took {:?}, in which silent connections expire",
            begin.elapsed(),
        );
        for cell in cells {
            for (table, run) in tables.iter_mut().zip(cell.figures()) {
                table.runs.push((cell.timer, run));
            }
        }
        Ok(())
    })?;
    println!(
        "{} connections, {BUSY} of them busy. {} rounds of {TURNS} turns of {:?}.\n",
        HumanCount(connections),
        rounds,
        Duration::from_nanos(TURN),
    );
    report::print(&tables);
    Ok(())
}

struct Cell {
    timer: Timer,
    server: Child,
    busy: Clients,
    _silent: Child,
    bytes_per_connection: f64,
    loads: [Tally; LOADS],
}

#[derive(Default)]
struct Tally {
    latencies: Late,
    requests: u64,
    time: Duration,
    cpu: Duration,
}

impl Cell {
    fn start(timer: Timer, connections: u64) -> anyhow::Result<Self> {
        let (mut server, address) = Child::start::<SocketAddr>(timer, &Role::CalmServer)?;
        let (_, before): Usage = server.ask(&())?;
        let mut busy = Clients::connect(address, BUSY, &HTTP)?;
        // Each connection makes a request, so that the server has allocated its memory for it.
        busy.send(&Load::closed(0))?;
        let role = Role::Silent(address, connections - BUSY);
        let (silent, ()) = Child::start(Timer::None, &role)?;
        thread::sleep(SETTLE);
        let (_, after): Usage = server.ask(&())?;
        Ok(Self {
            timer,
            server,
            busy,
            _silent: silent,
            bytes_per_connection: after.saturating_sub(before) as f64 / connections as f64,
            loads: Default::default(),
        })
    }

    fn turn(&mut self, load: usize, rate: Option<f64>) -> anyhow::Result<()> {
        let mut send = |lasts| {
            let closed = Load::closed(lasts);
            self.busy.send(&Load { rate, ..closed })
        };
        send(WARM_UP)?;
        let (before, _): Usage = self.server.ask(&())?;
        let start = Instant::now();
        let trips = send(TURN)?;
        let time = start.elapsed();
        let (after, _): Usage = self.server.ask(&())?;

        let answers = trips.iter().map(|trip| Some(trip.answer?.0 as i64));
        let latencies: Option<Late> = answers.collect();
        let tally = &mut self.loads[load];
        tally.latencies += latencies.context("a request got no answer within 20 s")?;
        tally.requests += trips.len() as u64;
        tally.time += time;
        tally.cpu += after - before;
        Ok(())
    }

    fn figures(&self) -> Vec<Vec<Figure>> {
        let load = |tally: &Tally| {
            let micros = |quantile| tally.latencies.ms(quantile) * 1e3;
            let cpu = tally.per_request(tally.cpu) / 1e3;
            let per_second = 1e9 / tally.per_request(tally.time);
            vec![
                ("requests/s", Compare::Percent, per_second),
                ("p50, us", Compare::Percent, micros(0.5)),
                ("p99, us", Compare::Percent, micros(0.99)),
                ("p99.9, us", Compare::Percent, micros(0.999)),
                ("server, us of CPU/req.", Compare::Difference, cpu),
            ]
        };
        let mut runs: Vec<_> = self.loads.iter().map(load).collect();
        let bytes = self.bytes_per_connection;
        runs[0].push(("server's bytes/conn.", Compare::Difference, bytes));
        runs
    }
}

impl Tally {
    fn per_request(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 / self.requests as f64
    }
}

const ANSWER_LENGTH: usize = "HTTP/1.1 200 OK\r\n\
    content-length: 16\r\n\
    date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
    \r\n\
    0123456789abcdef"
    .len();

/// Requests and answers of HTTP. Their bytes are known in advance, because the clients share the
/// machine with the server and must be cheap.
pub(crate) const HTTP: Protocol = Protocol {
    request: |Frame { number, .. }| {
        format!("GET /{number:016x} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
    },
    answer_length: ANSWER_LENGTH,
    answer: |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_at_checked(text.len() - 16).unwrap_or_default();
        ensure!(head.starts_with("HTTP/1.1 200 "), "the answer is {text:?}");
        let number = u64::from_str_radix(body, 16)?;
        Ok(Frame { number, word: 0 })
    },
};

/// Opens connections that make a request each. Keeps them open until the parent ends.
pub(crate) fn be_silent(server: SocketAddr, connections: u64) -> anyhow::Result<()> {
    let mut clients = Clients::connect(server, connections, &HTTP)?;
    clients.send(&Load::closed(0))?;
    child::answer(&())?;
    child::told()
}

/// The CPU time that a server has used so far, and the bytes of its memory that are in RAM.
type Usage = (Duration, u64);

/// Serves with hyper and keep-alive until the parent ends. For each line, answers what the server has used so far.
pub(crate) fn serve<L: Limits>(runtime: &Runtime) -> anyhow::Result<()> {
    let mut builder = http1::Builder::new();
    // [`Idle`] writes no vectors of buffers, so no timer does.
    builder.writev(false);
    L::head(&mut builder);
    let (backend, mut inbox): (Backend, _) = mpsc::unbounded_channel();
    runtime.spawn(async move {
        while let Some(reply) = inbox.recv().await {
            // A handler whose time is over no longer waits.
            let _ = reply.send(());
        }
    });
    let address = net::accept(runtime, move |socket| {
        let (builder, backend) = (builder.clone(), backend.clone());
        async move { connection::<L>(socket, &builder, &backend).await }
    })?;
    child::answer(&address)?;
    loop {
        child::told::<()>()?;
        child::answer(&(cpu_time(), resident_bytes()))?;
    }
}

/// The service that a handler waits for, as other handlers wait for a database.
type Backend = mpsc::UnboundedSender<oneshot::Sender<()>>;

async fn connection<L: Limits>(
    socket: TcpStream,
    builder: &http1::Builder,
    backend: &Backend,
) -> anyhow::Result<()> {
    let service = service_fn(async |request| {
        let answer = L::timeout(REQUEST, answer(request, backend)).await;
        answer.unwrap_or_else(|_| bail!("the backend has not answered"))
    });
    let stream = TokioIo::new(L::idle(socket));
    Ok(builder.serve_connection(stream, service).await?)
}

async fn answer(
    request: Request<Incoming>,
    backend: &Backend,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let (reply, answer) = oneshot::channel();
    backend.send(reply)?;
    answer.await?;
    let number = Bytes::copy_from_slice(&request.uri().path().as_bytes()[1..]);
    Ok(Response::new(Full::new(number)))
}

/// Sets the limits of a connection. The peer's `timeout` limits a request, and by default, `tokio::time` the head.
pub(crate) trait Limits: Resets {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    fn head(builder: &mut http1::Builder) {
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    }

    fn idle(socket: TcpStream) -> Self::Stream;
}

impl Limits for TokioWheel {
    type Stream = TimeoutStream<TcpStream>;

    fn head(builder: &mut http1::Builder) {
        builder.timer(WheelTimer::new()).header_read_timeout(HEAD);
    }

    fn idle(socket: TcpStream) -> Self::Stream {
        let limits = tokio_wheel_util::io::Limits::new().idle_timeout(IDLE);
        TimeoutStream::with_limits(socket, limits)
    }
}

impl Limits for Tokio {
    type Stream = Idle;

    fn idle(socket: TcpStream) -> Self::Stream {
        Idle {
            socket,
            sleep: Box::pin(sleep(IDLE)),
            moved: true,
        }
    }
}

impl Limits for TokioAlt {
    type Stream = Idle;

    fn idle(socket: TcpStream) -> Idle {
        Tokio::idle(socket)
    }
}

impl Limits for Bare {
    type Stream = TcpStream;

    fn head(_: &mut http1::Builder) {}

    fn idle(socket: TcpStream) -> Self::Stream {
        socket
    }
}

/// A socket whose operations fail if they wait and no byte has moved for too long.
pub(crate) struct Idle {
    socket: TcpStream,
    /// The sleep of the limit. The first operation that waits after bytes have moved postpones it.
    /// So each wait reads the clock once. This is the cheapest way on `tokio::time`, because
    /// postponing a deadline takes no lock. The alternative timer allocates another entry instead.
    sleep: Pin<Box<Sleep>>,
    moved: bool,
}

impl Idle {
    /// Polls an operation that may move bytes. Fails the operation if it has waited for too long.
    fn poll_in_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let outcome = poll(Pin::new(&mut self.socket), cx);
        if outcome.is_ready() {
            self.moved = true;
            return outcome;
        }
        if std::mem::take(&mut self.moved) {
            self.sleep.as_mut().reset(time::Instant::now() + IDLE);
        }
        let expired = self.sleep.as_mut().poll(cx);
        expired.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Idle {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut()
            .poll_in_time(cx, |socket, cx| socket.poll_read(cx, buf))
    }
}

impl AsyncWrite for Idle {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_in_time(cx, |socket, cx| socket.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}

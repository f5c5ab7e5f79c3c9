//! The server: hyper with keep-alive, and three limits on each connection.

use std::{
    io::{self, Read as _},
    net::SocketAddr,
    process,
    time::Duration,
};

use anyhow::ensure;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
};
use tokio_wheel_benches::peer::{Bare, Tokio, TokioWheel};

use crate::{
    calm::{
        limits::{Limits, Timer, TokioIoTimeout},
        sample::Usage,
    },
    child, files,
    serve::{accept, listen, runtime},
};

/// The answer to every request except a request for [`USAGE`].
pub(crate) const ANSWER: &str = "ok\n";

/// The path that returns the server's own usage.
pub(crate) const USAGE: &str = "/usage";

/// The address of the server, and its timer.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The timer that keeps the limits.
    #[arg(long)]
    timer: Timer,
    /// The address to listen on. Port 0 means any free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    addr: SocketAddr,
    #[command(flatten)]
    config: Config,
    /// Ends when standard input ends, which happens when the parent process ends.
    #[arg(long, hide = true)]
    until_eof: bool,
}

/// The settings that all timers share.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Config {
    /// How many threads the server has.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    workers: u8,
    /// How long a handler may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = crate::seconds)]
    request: Duration,
    /// How many seconds may pass without a byte.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = crate::seconds)]
    idle: Duration,
    /// How many seconds the head of a request may take. hyper counts the wait for the head too.
    #[arg(long, value_name = "SECONDS", default_value = "90", value_parser = crate::seconds)]
    head: Duration,
}

impl Config {
    /// Returns the shortest limit for a connection without requests.
    pub(crate) fn silence(&self) -> Duration {
        self.idle.min(self.head)
    }

    /// Returns the settings as arguments of `serve`.
    pub(crate) fn to_args(self) -> [String; 8] {
        let seconds = |limit: Duration| limit.as_secs_f64().to_string();
        [
            "--workers".into(),
            self.workers.to_string(),
            "--request".into(),
            seconds(self.request),
            "--idle".into(),
            seconds(self.idle),
            "--head".into(),
            seconds(self.head),
        ]
    }
}

/// Serves until the process is killed.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    files::raise()?;
    if args.until_eof {
        std::thread::spawn(|| {
            let _ = io::stdin().read(&mut [0]);
            process::exit(0);
        });
    }
    let runtime = runtime(args.config.workers)?;
    let (addr, config) = (args.addr, args.config);
    // Serves on a worker, because the main thread in `block_on` would be one more server thread.
    let serve = match args.timer {
        Timer::Wheel => runtime.spawn(serve::<TokioWheel>(addr, config)),
        Timer::Tokio => runtime.spawn(serve::<Tokio>(addr, config)),
        Timer::TokioIoTimeout => runtime.spawn(serve::<TokioIoTimeout>(addr, config)),
        Timer::None => runtime.spawn(serve::<Bare>(addr, config)),
    };
    runtime.block_on(serve)?
}

async fn serve<L: Limits>(addr: SocketAddr, config: Config) -> anyhow::Result<()> {
    let listener = listen(addr)?;
    child::answer(&listener.local_addr()?)?;
    let mut builder = http1::Builder::new();
    L::head(&mut builder, config.head);
    let backend = backend();
    accept(listener, move |socket| {
        let (builder, backend) = (builder.clone(), backend.clone());
        async move { connection::<L>(socket, &builder, config, &backend).await }
    })
    .await
}

/// Serves one client.
async fn connection<L: Limits>(
    socket: TcpStream,
    builder: &http1::Builder,
    config: Config,
    backend: &Backend,
) -> anyhow::Result<()> {
    let stream = L::idle(socket, config.idle);
    let service = service_fn(async |request| {
        match L::timeout(config.request, answer(request, backend)).await {
            Ok(answer) => answer,
            Err(_) => {
                let mut response = Response::new(Full::default());
                *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
                Ok(response)
            }
        }
    });
    builder
        .serve_connection(TokioIo::new(stream), service)
        .await?;
    Ok(())
}

async fn answer(
    request: Request<Incoming>,
    backend: &Backend,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let body = if request.uri().path() == USAGE {
        serde_json::to_vec(&Usage::of_this_process())?.into()
    } else {
        let (reply, answer) = oneshot::channel();
        ensure!(backend.send(reply).is_ok(), "the backend has ended");
        Bytes::from_static(answer.await?.as_bytes())
    };
    Ok(Response::new(Full::new(body)))
}

/// The service that a handler waits for, as other handlers wait for a database. The workload `rpc`
/// uses the same service.
type Backend = mpsc::UnboundedSender<oneshot::Sender<&'static str>>;

fn backend() -> Backend {
    let (requests, mut inbox) = mpsc::unbounded_channel::<oneshot::Sender<_>>();
    tokio::spawn(async move {
        let mut batch = Vec::with_capacity(64);
        while inbox.recv_many(&mut batch, 64).await > 0 {
            for reply in batch.drain(..) {
                // A handler whose time is over no longer waits.
                let _ = reply.send(ANSWER);
            }
        }
    });
    requests
}

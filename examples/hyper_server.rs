//! An HTTP/1.1 server on hyper, whose limits are all tokio-wheel's, and clients that run into them.
//!
//! ```text
//! cargo run --example hyper_server --features hyper,io,tower
//! ```
//!
//! `connection` is the function to copy. It sets four limits:
//!
//! | limit     | what it is on                                  | kept by                                |
//! |-----------|------------------------------------------------|----------------------------------------|
//! | `window`  | a client that sends, but too slowly: 408       | `TimeoutStream`, by its `min_read_rate` |
//! | `request` | a handler: 504                                 | `TimeoutLayer`                         |
//! | `idle`    | a connection on which nothing moves            | `TimeoutStream`, by its `idle_timeout` |
//! | `headers` | the head of a request, however fast it is sent | hyper, by `WheelTimer`                 |
//!
//! Each is to be longer than the one before, which it would hide if it were shorter: a handler waits
//! for the body, nothing moves while a handler works, and hyper takes the wait for a request for a
//! part of its head.

use std::{convert::Infallible, error::Error, fmt, io, iter, net::SocketAddr};

use clap::Parser;
use http_body_util::BodyExt as _;
use hyper::{Request, Response, StatusCode, body::Incoming, server::conn::http1};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    select,
    task::JoinSet,
};
use tokio_wheel::{
    Duration, Instant, Metrics, Timer,
    error::Elapsed,
    hyper::WheelTimer,
    io::{LimitExceeded, Limits as StreamLimits, MinRate, TimeoutStream},
    tower::TimeoutLayer,
};
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};

/// An HTTP/1.1 server on tokio-wheel that brings its own clients.
#[derive(Clone, Copy, Parser)]
#[command(name = "hyper_server")]
pub(crate) struct Limits {
    /// In how many milliseconds a client that sends must send 400 bytes.
    #[arg(long, value_name = "MS", default_value = "500", value_parser = millis)]
    pub(crate) window: Duration,
    /// How many a handler may take.
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = millis)]
    pub(crate) request: Duration,
    /// For how many nothing may move.
    #[arg(long, value_name = "MS", default_value = "1500", value_parser = millis)]
    pub(crate) idle: Duration,
    /// How many the head of a request may take.
    #[arg(long, value_name = "MS", default_value = "2000", value_parser = millis)]
    pub(crate) headers: Duration,
}

fn millis(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_millis)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let limits = Limits::parse();
    let sequence = [limits.window, limits.request, limits.idle, limits.headers];
    if limits.window.is_zero() || !sequence.is_sorted_by(|a, b| a < b) {
        return Err("needed: 0 < --window < --request < --idle < --headers".into());
    }
    print!("{}", run(limits).await?);
    Ok(())
}

/// Serves one client.
async fn connection(socket: TcpStream, limits: Limits) -> hyper::Result<()> {
    // To send nothing between two requests is not to send slowly.
    let rate = MinRate::new(400, limits.window).allow_silence();
    let mut io = TimeoutStream::new(socket);
    io.set_limits(
        StreamLimits::new()
            .idle_timeout(limits.idle)
            .min_read_rate(rate),
    );

    let service = TimeoutLayer::new(limits.request).layer(service_fn(answer));
    let service = TowerToHyperService::new(service.map_result(or_status));
    http1::Builder::new()
        .timer(WheelTimer::new())
        .header_read_timeout(limits.headers)
        .serve_connection(TokioIo::new(io), service)
        .await
}

/// The handler. For `/slow` it would take an hour.
async fn answer(request: Request<Incoming>) -> Result<Response<String>, BoxError> {
    if request.uri().path() == "/slow" {
        tokio_wheel::sleep(Duration::from_secs(3_600)).await;
    }
    let body = request.into_body().collect().await?.to_bytes();
    Ok(Response::new(format!("{} bytes\n", body.len())))
}

/// Gives an answer where a limit has cut the handler off, or the body that it reads.
fn or_status(answer: Result<Response<String>, BoxError>) -> Result<Response<String>, BoxError> {
    let status = match answer {
        Err(error) if error.is::<Elapsed>() => StatusCode::GATEWAY_TIMEOUT,
        Err(error) if exceeded(&*error).is_some() => StatusCode::REQUEST_TIMEOUT,
        other => return other,
    };
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    Ok(response)
}

/// The limit of the `TimeoutStream` that hyper's error comes from.
fn exceeded(error: &(dyn Error + 'static)) -> Option<LimitExceeded> {
    iter::successors(Some(error), |error| (**error).source())
        .find_map(|error| error.downcast_ref::<io::Error>())
        .and_then(|error| error.get_ref()?.downcast_ref().copied())
}

/// Lets clients loose on a server, until all of them are gone.
pub(crate) async fn run(limits: Limits) -> io::Result<Report> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut connections = JoinSet::new();
    let serve = async {
        loop {
            let (socket, _) = listener.accept().await?;
            connections.spawn(connection(socket, limits));
        }
    };
    let fates = select! {
        fates = clients(address, limits) => fates?,
        Err::<Infallible, io::Error>(error) = serve => return Err(error),
    };
    connections.join_all().await;
    let metrics = Timer::current().metrics();
    Ok(Report { fates, metrics })
}

async fn clients(server: SocketAddr, limits: Limits) -> io::Result<[Fate; 5]> {
    // In parts of 200 bytes that is fast enough, in parts of 10 it is not.
    let pause = limits.window / 16;
    let fates = tokio::try_join!(
        Client::play("in time", server, Duration::ZERO, async |client| {
            for _ in 0..3 {
                client.ask("/").await;
                tokio::time::sleep(limits.idle / 5).await;
            }
        }),
        Client::play("slow body", server, limits.window, async |client| {
            let head = "POST / HTTP/1.1\r\ncontent-length: 10000\r\n\r\n";
            client.dribble(head, &"x".repeat(10), pause).await;
        }),
        Client::play("slow handler", server, limits.request, async |client| {
            client.ask("/slow").await;
            client.ask("/").await;
        }),
        Client::play("silent", server, limits.idle, async |client| {
            client.ask("/").await;
            client.answers.extend(status(&mut client.socket).await);
        }),
        Client::play("endless head", server, limits.headers, async |client| {
            let head = "GET / HTTP/1.1\r\nendless: ";
            client.dribble(head, &"x".repeat(200), pause).await;
        }),
    );
    fates.map(Into::into)
}

/// What came of the clients, and what their connections cost in timers.
pub(crate) struct Report {
    pub(crate) fates: [Fate; 5],
    pub(crate) metrics: Metrics,
}

/// What came of one client.
pub(crate) struct Fate {
    pub(crate) client: &'static str,
    /// The limit that it runs into, or zero.
    pub(crate) limit: Duration,
    pub(crate) lived: Duration,
    /// The status of each.
    pub(crate) answers: Vec<u16>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "client        limit    lived    answers")?;
        for fate in &self.fates {
            let (limit, lived) = (fate.limit.as_millis(), fate.lived.as_millis());
            let (client, answers) = (fate.client, &fate.answers);
            writeln!(f, "{client:12}  {limit:4} ms  {lived:4} ms  {answers:?}")?;
        }
        writeln!(f, "\n{:?}", self.metrics)
    }
}

/// Uses tokio's own timers, so that the wheel's counts are the server's.
struct Client {
    socket: TcpStream,
    answers: Vec<u16>,
}

impl Client {
    /// Connects a client, which lives until it has played its part.
    async fn play(
        name: &'static str,
        server: SocketAddr,
        limit: Duration,
        part: impl AsyncFnOnce(&mut Client),
    ) -> io::Result<Fate> {
        let start = Instant::now();
        let socket = TcpStream::connect(server).await?;
        let answers = Vec::new();
        let mut client = Self { socket, answers };
        part(&mut client).await;
        Ok(Fate {
            client: name,
            limit,
            lived: start.elapsed(),
            answers: client.answers,
        })
    }

    async fn ask(&mut self, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\n\r\n");
        // If the server has hung up, there is no answer either.
        let _ = self.socket.write_all(request.as_bytes()).await;
        self.answers.extend(status(&mut self.socket).await);
    }

    /// Sends a part of a request every so often, until the server answers or hangs up.
    async fn dribble(&mut self, head: &str, part: &str, pause: Duration) {
        let mut next = head;
        while self.socket.write_all(next.as_bytes()).await.is_ok() {
            match tokio::time::timeout(pause, status(&mut self.socket)).await {
                Ok(answer) => return self.answers.extend(answer),
                Err(_) => next = part,
            }
        }
    }
}

/// The status of an answer, each of which is short enough to come in one piece.
async fn status(socket: &mut TcpStream) -> Option<u16> {
    let mut answer = [0; 1_024];
    let length = socket.read(&mut answer).await.ok()?;
    let text = std::str::from_utf8(&answer[..length]).ok()?;
    text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

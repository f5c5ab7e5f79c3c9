//! A hyper server for HTTP/1 and HTTP/2 with limits for everything that can be slow, and clients that reach them.
//!
//! ```text
//! cargo run -p tokio-wheel-util --example hyper_server --features hyper,io
//! ```
//!
//! For your own server, copy the functions `serve`, `connection` and `answer`. They set five limits:
//!
//! | limit     | ends                                                  | type or function                          |
//! |-----------|-------------------------------------------------------|-------------------------------------------|
//! | `window`  | a body that arrives too slowly, with 408              | `TimeoutStream`, with its `min_read_rate` |
//! | `request` | slow work on a request, with 504                      | `timeout`                                 |
//! | `idle`    | a connection without a request in flight              | `Connections`                             |
//! | `age`     | any connection, so that load balancers spread clients | `Connections`                             |
//! | `grace`   | a connection whose graceful shutdown takes too long   | `Connections`                             |
//!
//! The limits are independent: each may be longer or shorter than the others. In this example, the age must be the
//! longest limit, because it ends all connections.

use std::{convert::Infallible, error::Error, io, iter, net::SocketAddr};

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    select,
};
use tokio_wheel::{Duration, Instant, sleep, timeout};
use tokio_wheel_util::{
    hyper::{ConnectionGuard, Connections, Counts, Limits, Reason},
    io::{LimitExceeded, Limits as StreamLimits, MinRate, TimeoutStream},
};

/// The size of the largest request body that the server accepts, in bytes.
const MAX_BODY: usize = 1 << 20;

type BoxError = Box<dyn Error + Send + Sync>;

/// The limits. The age must be at least three times each other limit, because the clients must reach the others first.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// A client that sends a body must send 400 bytes within this time.
    pub(crate) window: Duration,
    /// The work on a request may take this time.
    pub(crate) request: Duration,
    /// A connection may have no request in flight for this time.
    pub(crate) idle: Duration,
    pub(crate) age: Duration,
    pub(crate) grace: Duration,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let settings = Settings {
        window: Duration::from_millis(700),
        request: Duration::from_millis(500),
        idle: Duration::from_millis(1_000),
        age: Duration::from_millis(3_000),
        grace: Duration::from_millis(600),
    };
    let (fates, counts) = run(settings).await?;
    for Fate {
        client,
        limit,
        lived,
        answers,
    } in fates
    {
        println!("{client:12} limit {limit:8.0?} lived {lived:8.0?} {answers:?}");
    }
    println!("{counts:?}");
    Ok(())
}

/// Accepts clients and serves them until the future is dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    connections: Connections,
    settings: Settings,
) -> io::Result<Infallible> {
    loop {
        let (socket, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The client has gone, or the process has no descriptor left. A pause avoids a busy loop.
            Err(error) => {
                eprintln!("failed to accept a connection: {error}");
                sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        match connections.open() {
            Ok(guard) => drop(tokio::spawn(connection(socket, guard, settings))),
            Err(full) => eprintln!("refused {client}: {full}"),
        }
    }
}

/// Serves one client.
async fn connection(socket: TcpStream, guard: ConnectionGuard, settings: Settings) {
    // Silence between two requests is not a slow body.
    let rate = MinRate::new(400, settings.window).allow_silence();
    let io = TimeoutStream::with_limits(socket, StreamLimits::new().min_read_rate(rate));

    let service = service_fn(move |request| answer(request, settings.request));
    let builder = auto::Builder::new(TokioExecutor::new());
    let connect = |service| builder.serve_connection(TokioIo::new(io), service);
    let ended = guard.serve(service, connect).await;
    if let (Reason::Closed, Some(error)) = (ended.reason(), ended.error()) {
        eprintln!("a connection failed: {error}");
    }
}

/// Reads a request and responds to it.
async fn answer(request: Request<Incoming>, limit: Duration) -> Result<Response<String>, BoxError> {
    let failure = |status| Ok(Response::builder().status(status).body(String::new())?);
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return failure(StatusCode::PAYLOAD_TOO_LARGE);
        }
        Err(error) if is_too_slow(&*error) => return failure(StatusCode::REQUEST_TIMEOUT),
        Err(error) => return Err(error),
    };
    match timeout(limit, work(head.uri.path(), body)).await {
        Ok(answer) => Ok(Response::new(answer)),
        Err(_) => failure(StatusCode::GATEWAY_TIMEOUT),
    }
}

/// Takes an hour for `/slow`, 100 ms for `/work`, and no time for other paths.
async fn work(path: &str, body: Bytes) -> String {
    match path {
        "/slow" => sleep(Duration::from_secs(3_600)).await,
        "/work" => sleep(Duration::from_millis(100)).await,
        _ => {}
    }
    format!("{} bytes\n", body.len())
}

/// Returns whether a limit of the `TimeoutStream` caused hyper's error.
fn is_too_slow(error: &(dyn Error + 'static)) -> bool {
    iter::successors(Some(error), |error| (**error).source())
        .filter_map(|error| error.downcast_ref::<io::Error>()?.get_ref())
        .any(|inner| inner.is::<LimitExceeded>())
}

/// Starts a server and runs all clients. Returns what happened to them, and how their connections ended. The server shuts down while the last client waits for a response.
pub(crate) async fn run(settings: Settings) -> io::Result<(Vec<Fate>, Counts)> {
    let limits = Limits::new()
        .idle(settings.idle)
        .max_age(settings.age)
        .grace(settings.grace);
    let connections = Connections::new(limits);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let fates = select! {
        fates = clients(address, settings, &connections) => fates?,
        Err::<Infallible, io::Error>(error) = serve(listener, connections.clone(), settings) => return Err(error),
    };
    Ok((fates, connections.counts()))
}

/// Runs all clients at the same time, then the last client.
async fn clients(
    server: SocketAddr,
    settings: Settings,
    connections: &Connections,
) -> io::Result<Vec<Fate>> {
    // A client that pauses for this time is fast enough with parts of 200 bytes, and too slow with parts of 10.
    let Settings { idle, age, .. } = settings;
    let pause = settings.window / 16;
    let fates = tokio::try_join!(
        Client::play("in time", server, Duration::ZERO, async |client| {
            for _ in 0..3 {
                client.ask("/").await;
                tokio::time::sleep(idle / 5).await;
            }
        }),
        Client::play("slow body", server, settings.window, async |client| {
            let head = "POST / HTTP/1.1\r\ncontent-length: 100000\r\n\r\n";
            client.dribble(head, &"x".repeat(10), pause).await;
        }),
        Client::play("slow handler", server, settings.request, async |client| {
            client.ask("/slow").await;
            client.ask("/").await;
        }),
        Client::play("silent", server, idle, async |client| {
            client.ask("/").await;
            client.hear().await;
        }),
        Client::play(
            "endless head",
            server,
            idle + settings.grace,
            async |client| {
                let head = "GET / HTTP/1.1\r\nendless: ";
                client.dribble(head, &"x".repeat(200), pause).await;
            }
        ),
        // The jitter shortens the age by up to a tenth.
        Client::play("restless", server, age.mul_f64(0.9), async |client| {
            while client.ask("/").await {
                tokio::time::sleep(idle / 5).await;
            }
            client.answers.dedup();
        }),
    )?;
    let last = Client::play("last", server, Duration::ZERO, async |client| {
        client.ask("/").await;
        tokio::join!(client.ask("/work"), async {
            // The server has received the request by then.
            tokio::time::sleep(Duration::from_millis(50)).await;
            connections.shutdown().await;
        });
    });
    let last = last.await?;
    let (a, b, c, d, e, f) = fates;
    Ok(vec![a, b, c, d, e, f, last])
}

/// What happened to one client.
#[derive(Debug)]
pub(crate) struct Fate {
    pub(crate) client: &'static str,
    /// The limit that the client reaches, or zero.
    pub(crate) limit: Duration,
    /// How long the client was connected.
    pub(crate) lived: Duration,
    /// The status of each response.
    pub(crate) answers: Vec<u16>,
}

/// A client of HTTP/1. It uses `tokio::time`, so only the server uses tokio-wheel.
struct Client {
    socket: TcpStream,
    answers: Vec<u16>,
}

impl Client {
    /// Connects a client and runs its part.
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

    /// Sends a request. Returns whether there was a response.
    async fn ask(&mut self, path: &str) -> bool {
        let request = format!("GET {path} HTTP/1.1\r\n\r\n");
        // If the server has closed the connection, there is no response either.
        let _ = self.socket.write_all(request.as_bytes()).await;
        self.hear().await
    }

    /// Waits for a response or the end of the connection. Returns whether there was a response.
    async fn hear(&mut self) -> bool {
        let answer = status(&mut self.socket).await;
        self.answers.extend(answer);
        answer.is_some()
    }

    /// Sends a part of a request after each pause, until the server responds or closes the connection.
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

/// Reads a response and returns its status. The responses are so short that one read gets all of it.
async fn status(socket: &mut TcpStream) -> Option<u16> {
    let mut answer = [0; 1_024];
    let length = socket.read(&mut answer).await.ok()?;
    let text = std::str::from_utf8(&answer[..length]).ok()?;
    text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

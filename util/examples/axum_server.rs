//! An axum server with a timeout for requests, limits for its connections, and a graceful shutdown.
//!
//! ```text
//! cargo run -p tokio-wheel-util --example axum_server --features http,serve
//! curl 127.0.0.1:3000/slow        # 504 after 10 s
//! ```
//!
//! Press Ctrl-C while a request is in flight: the request gets its response, and then the process ends.
//!
//! For your own server, copy this file and these lines of a Cargo.toml:
//!
//! ```toml
//! [dependencies]
//! axum = "0.8"
//! tokio = { version = "1.54", features = ["macros", "net", "rt-multi-thread", "signal"] }
//! tokio-wheel = { path = "../tokio-wheel" }
//! tokio-wheel-util = { path = "../tokio-wheel/util", features = ["http", "serve"] }
//! ```
//!
//! | limit | ends | with |
//! |---|---|---|
//! | `request` | a request without a response | 504 |
//! | `body` | a request whose body arrives too slowly | 400 |
//! | `head` | a new connection that sends nothing, or only a part of a head | |
//! | `idle` | a connection without a request in flight | |
//! | `age` | any connection, so that load balancers spread the clients | |
//! | `grace` | a connection whose graceful shutdown takes too long | |

use std::{future::Future, io};

use axum::{
    Router,
    body::Bytes,
    http::StatusCode,
    routing::{get, post},
};
use tokio::net::TcpListener;
use tokio_wheel::{Duration, sleep};
use tokio_wheel_util::{
    http::{BodyLimits, RequestBodyTimeoutLayer, TimeoutLayer},
    hyper::{Connections, Counts, Limits},
    serve,
};

/// How long each step may take.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) request: Duration,
    pub(crate) body: Duration,
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
    pub(crate) age: Duration,
    pub(crate) grace: Duration,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let settings = Settings {
        request: Duration::from_secs(10),
        body: Duration::from_secs(5),
        head: Duration::from_secs(5),
        idle: Duration::from_secs(60),
        age: Duration::from_secs(600),
        grace: Duration::from_secs(20),
    };
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    let signal = async { tokio::signal::ctrl_c().await.expect("Ctrl-C must work") };
    println!("{:?}", run(listener, settings, signal).await?);
    Ok(())
}

/// Serves clients until `signal` is ready. Returns how their connections ended.
pub(crate) async fn run(
    listener: TcpListener,
    settings: Settings,
    signal: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Counts> {
    let body = BodyLimits::new().body_timeout(settings.body);
    let app = Router::new()
        .route("/", get(async || "hello\n"))
        .route(
            "/slow",
            get(async || sleep(Duration::from_secs(3_600)).await),
        )
        .route(
            "/work",
            get(async || sleep(Duration::from_millis(100)).await),
        )
        .route("/upload", post(async |body: Bytes| body.len().to_string()))
        .layer((
            TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, settings.request),
            RequestBodyTimeoutLayer::with_limits(body),
        ));
    let limits = Limits::new()
        .idle(settings.idle)
        .max_age(settings.age)
        .grace(settings.grace)
        .max_connections(10_000);
    let connections = Connections::new(limits);
    serve(listener, app)
        .connections(&connections)
        .header_timeout(settings.head)
        .with_graceful_shutdown(signal)
        .on_error(|error| eprintln!("{error}"))
        .await?;
    Ok(connections.counts())
}

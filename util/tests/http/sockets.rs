//! Tests an axum application over loopback with the real clock: no limit is early.

use std::{future::pending, time::Instant};

use axum::{
    Router,
    body::Body,
    routing::{get, post},
};
use http::{Request, StatusCode};
use hyper::client::conn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_wheel::Duration;
use tokio_wheel_util::http::{
    BodyLimits, RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutLayer,
};

use crate::{
    Parts, read,
    support::{ms, secs},
};

/// The time that a test may take on a busy machine.
const AT_MOST: Duration = secs(60);

fn application() -> Router {
    Router::new()
        .route("/never", get(pending::<()>))
        .route("/upload", post(async |body: axum::body::Bytes| body))
        .route("/stuck", get(async || Body::new(Parts::stuck())))
        .route(
            "/slow",
            get(async || Body::new(Parts::every(ms(20), 1_000))),
        )
        .layer((
            TimeoutLayer::new(ms(400)),
            RequestBodyTimeoutLayer::new(ms(200)),
            ResponseBodyTimeoutLayer::with_limits(
                BodyLimits::new()
                    .frame_timeout(ms(200))
                    .body_timeout(ms(300)),
            ),
        ))
}

/// Serves one connection at a time, of HTTP/1 or HTTP/2.
async fn listen() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let io = TokioIo::new(listener.accept().await.unwrap().0);
            let service = TowerToHyperService::new(application());
            tokio::spawn(async move {
                // A connection fails if a body fails.
                let server = auto::Builder::new(TokioExecutor::new());
                drop(server.serve_connection(io, service).await);
            });
        }
    });
    address
}

/// Sends a request over a new connection. Returns the status, whether the body failed, and how long it took.
async fn ask(
    address: std::net::SocketAddr,
    http2: bool,
    path: &str,
    body: Body,
) -> (StatusCode, bool, Duration) {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let method = if path == "/upload" { "POST" } else { "GET" };
    let request = Request::builder().method(method).header("host", "test");
    let request = request
        .uri(format!("http://test{path}"))
        .body(body)
        .unwrap();
    let start = Instant::now();
    let response = if http2 {
        let (mut client, connection) = conn::http2::handshake(TokioExecutor::new(), io)
            .await
            .unwrap();
        tokio::spawn(connection);
        client.send_request(request).await.unwrap()
    } else {
        let (mut client, connection) = conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        client.send_request(request).await.unwrap()
    };
    let status = response.status();
    let (_, error) = read(response.into_body()).await;
    (status, error.is_some(), start.elapsed())
}

#[tokio::test]
async fn each_limit_ends_its_request_and_never_early() {
    let all = async {
        let address = listen().await;
        for http2 in [false, true] {
            for (path, body, at_least, status, fails) in [
                (
                    "/never",
                    Body::empty(),
                    400,
                    StatusCode::REQUEST_TIMEOUT,
                    false,
                ),
                (
                    "/upload",
                    Body::new(Parts::stuck()),
                    200,
                    StatusCode::BAD_REQUEST,
                    false,
                ),
                ("/stuck", Body::empty(), 200, StatusCode::OK, true),
                ("/slow", Body::empty(), 300, StatusCode::OK, true),
            ] {
                let (answered, failed, took) = ask(address, http2, path, body).await;
                assert_eq!(
                    (answered, failed),
                    (status, fails),
                    "{path}, HTTP/2: {http2}"
                );
                assert!(took >= ms(at_least), "{path}: {took:?}");
            }
        }
    };
    tokio::time::timeout(AT_MOST, all)
        .await
        .expect("the test must end in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_at_once_are_cut_off_and_leave_nothing() {
    let all = async {
        let address = listen().await;
        let clients: Vec<_> = (0..64)
            .map(|n| tokio::spawn(ask(address, n % 2 == 0, "/never", Body::empty())))
            .collect();
        for client in clients {
            let (status, _, took) = client.await.unwrap();
            assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
            assert!(took >= ms(400), "{took:?}");
        }
        let timer = tokio_wheel::Timer::current();
        while timer.metrics().pending() > 0 {
            tokio::time::sleep(ms(1)).await;
        }
    };
    tokio::time::timeout(AT_MOST, all)
        .await
        .expect("the test must end in time");
}

//! Tests axum applications in hyper's servers, with HTTP/1 and HTTP/2, under the paused clock.

use axum::{
    Router,
    body::Body,
    routing::{get, post},
};
use http::{Method, header};
use hyper::body::Body as _;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::io::duplex;

use super::*;
use crate::{
    hyper::server::{Auto1, Auto2, Client, Protocol, each_that},
    support::settle,
};

fn on_both_versions(test: impl AsyncFn(Protocol)) {
    each_that(|protocol| [Auto1, Auto2].contains(&protocol), test);
}

async fn client_of(app: Router, protocol: Protocol) -> Client {
    let (client, io) = duplex(65_536);
    let service = TowerToHyperService::new(app);
    tokio::spawn(async move {
        let server = auto::Builder::new(TokioExecutor::new());
        // A connection fails if its client or a body fails.
        drop(server.serve_connection(TokioIo::new(io), service).await);
    });
    Client::new(protocol, client).await
}

async fn assert_idle() {
    settle().await;
    assert_eq!(Timer::current().metrics().pending(), 0);
}

/// An HTTP/1 connection closes, and an HTTP/2 stream is reset.
#[test]
fn a_handler_that_streams_too_slowly_is_cut_off() {
    on_both_versions(async |protocol| {
        for (pause, takes, bytes) in [(9, 60, 28), (11, 10, 4)] {
            let parts = async move || Body::new(Parts::every(secs(pause), 20));
            let app = Router::new()
                .route("/", get(parts))
                .route("/fast", get(async || "done"))
                .layer(ResponseBodyTimeoutLayer::with_limits(LIMITS));
            let mut client = client_of(app, protocol).await;
            let start = Instant::now();
            let response = client.ask("/").await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let (read, error) = read(response.into_body()).await;
            assert_eq!((read, start.elapsed()), (bytes, secs(takes)));
            let error = format!("{:?}", error.unwrap());
            let sees = if protocol.is_http1() {
                "UnexpectedEof"
            } else {
                "INTERNAL_ERROR"
            };
            assert!(error.contains(sees), "{error}");
            assert_eq!(client.ask("/fast").await.is_err(), protocol.is_http1());
            assert_idle().await;
        }
    });
}

#[test]
fn all_limits_together_leave_alone_what_is_in_time() {
    on_both_versions(async |protocol| {
        let sized = async || Body::new(Parts::every(secs(1), 3).sized());
        let app = Router::new()
            .route("/", post(async |body: Body| Body::new(body)))
            .route("/sized", get(sized))
            .route("/empty", get(async || StatusCode::NO_CONTENT))
            .layer((
                TimeoutLayer::new(secs(10)).grpc(),
                RequestBodyTimeoutLayer::with_limits(LIMITS),
                ResponseBodyTimeoutLayer::with_limits(LIMITS),
            ));
        let mut client = client_of(app, protocol).await;
        let parts = Body::new(Parts::every(secs(5), 8));
        let echo = client.ask_with(Method::POST, "/", parts).await.unwrap();
        assert_eq!(read(echo.into_body()).await.0, 32);
        // tower-http hides the length, so HTTP/1 would send chunks.
        let sized = client.ask("/sized").await.unwrap();
        assert_eq!(sized.headers()[header::CONTENT_LENGTH], "12");
        assert_eq!(read(sized.into_body()).await.0, 12);
        let empty = client.ask("/empty").await.unwrap();
        assert!(empty.body().is_end_stream());
        assert_idle().await;
    });
}

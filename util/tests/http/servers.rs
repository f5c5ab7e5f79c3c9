//! Tests axum applications in hyper's servers, with HTTP/1 and HTTP/2.
//!
//! Clients use pipes in memory, and the clock is paused.

use axum::body::Body;
use hyper::{body::Body as _, service::service_fn};

use super::*;
use Version::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    Http1,
    Http2,
}

enum Client {
    Http1(conn::http1::SendRequest<Body>),
    Http2(conn::http2::SendRequest<Body>),
}

impl Client {
    /// Starts a server for `app` and returns its only client. `pipe` is the size of the pipe between them, in bytes.
    async fn of(version: Version, app: Router, pipe: usize) -> Self {
        let (client, io) = duplex(pipe);
        let (client, io) = (TokioIo::new(client), TokioIo::new(io));
        let service = TowerToHyperService::new(app);
        let executor = TokioExecutor::new();
        tokio::spawn(async move {
            let server = auto::Builder::new(executor);
            // A connection fails if its client or a body fails.
            drop(server.serve_connection(io, service).await);
        });
        match version {
            Http1 => {
                let (client, connection) = conn::http1::handshake(client).await.unwrap();
                tokio::spawn(connection);
                Self::Http1(client)
            }
            Http2 => {
                let executor = TokioExecutor::new();
                let (client, connection) = conn::http2::handshake(executor, client).await.unwrap();
                tokio::spawn(connection);
                Self::Http2(client)
            }
        }
    }

    async fn send(&mut self, request: Request<Body>) -> hyper::Result<http::Response<Incoming>> {
        match self {
            Self::Http1(client) => {
                client.ready().await?;
                client.send_request(request).await
            }
            Self::Http2(client) => {
                client.ready().await?;
                client.send_request(request).await
            }
        }
    }

    async fn get(&mut self, path: &str) -> http::Response<Incoming> {
        self.send(request("GET", path, Body::empty()))
            .await
            .unwrap()
    }

    async fn post(&mut self, path: &str, parts: Parts) -> http::Response<Incoming> {
        self.send(request("POST", path, Body::new(parts)))
            .await
            .unwrap()
    }
}

fn request(method: &str, path: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).header("host", "test");
    let uri = format!("http://test{path}");
    request.uri(uri).body(body).unwrap()
}

/// Runs a test once for each version of HTTP.
macro_rules! on_both_versions {
    ($($(#[$attribute:meta])* async fn $name:ident($version:ident) $body:block)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            for $version in [Http1, Http2] {
                println!("{:?}", $version);
                crate::support::paused().block_on(async $body);
            }
        }
    )*};
}

const PIPE: usize = 65_536;

/// Limits of 10 s for a frame and 60 s for a body.
const LIMITS: BodyLimits = BodyLimits::new()
    .frame_timeout(secs(10))
    .body_timeout(secs(60));

async fn assert_idle() {
    settle().await;
    assert_eq!(Timer::current().metrics().pending(), 0);
}

on_both_versions! {
    /// An HTTP/1 connection closes, and an HTTP/2 stream is reset.
    async fn a_handler_that_streams_too_slowly_is_cut_off(version) {
        for (pause, takes, bytes) in [(9, 60, 28), (11, 10, 4)] {
            let app = Router::new()
                .route("/", get(async move || Body::new(Parts::every(secs(pause), 20))))
                .route("/fast", get(async || "done"))
                .layer(ResponseBodyTimeoutLayer::with_limits(LIMITS));
            let mut client = Client::of(version, app, PIPE).await;
            let start = Instant::now();
            let response = client.get("/").await;
            assert_eq!(response.status(), StatusCode::OK);
            let (read, error) = read(response.into_body()).await;
            assert_eq!((read, start.elapsed()), (bytes, secs(takes)));
            let error = error.unwrap();
            let sees = if version == Http1 { "UnexpectedEof" } else { "INTERNAL_ERROR" };
            assert!(format!("{error:?}").contains(sees), "{error:?}");
            let again = client.send(request("GET", "/fast", Body::empty())).await;
            assert_eq!(again.is_err(), version == Http1);
            assert_idle().await;
        }
    }

    /// hyper polls a body only while it has room for a frame.
    async fn a_slow_reader_is_not_cut_off(version) {
        const FRAMES: usize = 200;
        const LARGE: usize = 16_384;
        // The reader must wait for a moment before each frame.
        let frames = async || {
            Body::from_stream(tokio_stream::iter(0..FRAMES).then(async |_| {
                yield_now().await;
                Ok::<_, Infallible>(vec![0; LARGE])
            }))
        };
        let app = Router::new()
            .route("/", get(frames))
            .layer(ResponseBodyTimeoutLayer::with_limits(LIMITS));
        let mut client = Client::of(version, app, 1_024).await;
        let start = Instant::now();
        let mut body = client.get("/").await.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame.unwrap().into_data().unwrap().len();
            sleep(secs(60)).await;
        }
        assert_eq!(bytes, FRAMES * LARGE);
        assert!(start.elapsed() > secs(3_600), "the reader must be slow: {:?}", start.elapsed());
        assert_idle().await;
    }

    async fn all_limits_together_leave_alone_what_is_in_time(version) {
        let app = Router::new()
            .route("/", post(async |body: Body| Body::new(body)))
            .route("/sized", get(async || Body::new(Parts::every(secs(1), 3).sized())))
            .route("/empty", get(async || StatusCode::NO_CONTENT))
            .layer((
                TimeoutLayer::new(secs(10)).deadline().grpc(),
                RequestBodyTimeoutLayer::with_limits(LIMITS),
                ResponseBodyTimeoutLayer::with_limits(LIMITS),
            ));
        let mut client = Client::of(version, app, PIPE).await;
        let echo = client.post("/", Parts::every(secs(5), 8)).await;
        assert_eq!(read(echo.into_body()).await.0, 32);
        // tower-http hides the length, so HTTP/1 would send chunks.
        let sized = client.get("/sized").await;
        assert_eq!(sized.headers()[header::CONTENT_LENGTH], "12");
        assert_eq!(read(sized.into_body()).await.0, 12);
        let empty = client.get("/empty").await;
        assert!(empty.body().is_end_stream());
        assert_idle().await;
    }

}

/// A server can log which limit a response has exceeded.
#[test]
fn the_error_of_a_connection_has_the_limit() {
    crate::support::paused().block_on(async {
        let body = || TimeoutBody::with_limits(LIMITS, Parts::every(secs(9), 20));
        let service = service_fn(async |_: Request<Incoming>| {
            Ok::<_, Infallible>(http::Response::new(body()))
        });
        let (client, server) = duplex(PIPE);
        let server = http1::Builder::new().serve_connection(TokioIo::new(server), service);
        let (mut client, connection) = conn::http1::handshake(TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection);
        let response = client.send_request(request("GET", "/", Body::empty()));
        let (served, _response) = tokio::join!(server, response);
        let exceeded = LimitExceeded::find(&served.unwrap_err());
        assert_eq!(exceeded, Some(LimitExceeded::Body(secs(60))));
    });
}

//! Runs the same code with tower-http's layers and with ours, under the paused clock.
//!
//! The events, their order and their times must be equal. This file also has the cases that the tests of tower-http and
//! axum check.

use std::future::Future;

use axum::{
    Router,
    body::{Body, Bytes},
    routing::{get, post},
};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use crate::{
    Parts, read,
    support::{
        log::{Log, side_by_side},
        ms, secs,
    },
};

mod original {
    pub(super) use tokio::time::sleep;
    pub(super) use tower_http::timeout::{
        RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutBody, TimeoutLayer,
    };
}
mod wheel {
    pub(super) use tokio_wheel::sleep;
    pub(super) use tokio_wheel_util::http::{
        RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutBody, TimeoutLayer,
    };
}

const LATE: StatusCode = StatusCode::GATEWAY_TIMEOUT;

/// Responds after a number of milliseconds. Fails if the number is odd.
async fn after(
    sleep: impl Future<Output = ()>,
    millis: u64,
) -> Result<Response<Full<Bytes>>, String> {
    sleep.await;
    match millis % 2 {
        0 => Ok(Response::new("done".into())),
        _ => Err(format!("{millis} is odd")),
    }
}

impl Log {
    async fn response<E: ToString>(&self, response: Result<Response<Full<Bytes>>, E>) {
        match response {
            Ok(response) => {
                self.note((response.status(), response.headers().clone()));
                self.note(response.into_body().collect().await.unwrap().to_bytes());
            }
            Err(error) => self.note(error.to_string()),
        }
    }

    async fn get(&self, app: &Router, path: &str) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        self.note(response.status());
        let (bytes, error) = read(response.into_body()).await;
        self.note((bytes, error.is_some()));
    }

    async fn post(&self, app: &Router, parts: Parts) {
        let request = Request::post("/").body(Body::new(parts)).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        self.note(response.status());
    }
}

side_by_side! {
    (original) (wheel)

    async fn responses_in_time_and_too_late(http, log) {
        let after = |request: Request<u64>| {
            after(http::sleep(ms(*request.body())), request.into_body())
        };
        let mut service = http::TimeoutLayer::with_status_code(LATE, ms(100)).layer(service_fn(after));
        for millis in [0, 2, 51, 98, 99, 101, 102, 5_000] {
            log.response(service.ready().await.unwrap().call(Request::new(millis)).await).await;
        }
    }

    /// tower-http's tests of its `TimeoutBody` check these cases.
    async fn frames_in_time_and_too_late(http, log) {
        for (limit, pause) in [(2_000, 1_000), (1_000, 2_000), (1_000, 1_001), (1_000, 999)] {
            let body = http::TimeoutBody::new(ms(limit), Parts::every(ms(pause), 5));
            let (bytes, error) = read(body).await;
            log.note((bytes, error.is_some()));
        }
        let (bytes, error) = read(http::TimeoutBody::new(secs(1), Parts::every(ms(1), 3).broken())).await;
        log.note((bytes, error.unwrap().to_string()));
    }

    async fn request_bodies(http, log) {
        let app = Router::new()
            .route("/", post(async |body: Bytes| log_length(body)))
            .layer(http::RequestBodyTimeoutLayer::new(secs(10)));
        for pause in [1, 9, 11] {
            log.post(&app, Parts::every(secs(pause), 20)).await;
        }
    }

    async fn response_bodies(http, log) {
        let app = Router::new()
            .route("/9", get(async || Body::new(Parts::every(secs(9), 20))))
            .route("/11", get(async || Body::new(Parts::every(secs(11), 20))))
            .layer(http::ResponseBodyTimeoutLayer::new(secs(10)));
        for path in ["/9", "/11", "/9", "/other"] {
            log.get(&app, path).await;
        }
    }
}

fn log_length(body: Bytes) -> String {
    body.len().to_string()
}

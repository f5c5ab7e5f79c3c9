//! Tests the layer that limits requests. `tests/tower/` tests the future that both layers share.

use std::{convert::Infallible, future::pending};

use http::{Request, Response, StatusCode};
use tokio_wheel::{Duration, Instant, Timer, sleep};
use tokio_wheel_util::http::TimeoutLayer;
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use crate::support::{ms, secs};

const LAYER: TimeoutLayer = TimeoutLayer::new(Duration::from_secs(1));

type Answer = Result<Response<String>, Infallible>;

/// Responds after the number of milliseconds in the request.
async fn after(request: Request<u64>) -> Answer {
    sleep(ms(request.into_body())).await;
    Ok(Response::new("done".to_owned()))
}

async fn never(_: Request<u64>) -> Answer {
    pending().await
}

#[tokio::test(start_paused = true)]
async fn a_late_response_becomes_a_status_with_an_empty_body() {
    for (layer, status) in [
        (LAYER, StatusCode::REQUEST_TIMEOUT),
        (
            TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, secs(1)),
            StatusCode::GATEWAY_TIMEOUT,
        ),
        (
            LAYER.status_code(StatusCode::SERVICE_UNAVAILABLE),
            StatusCode::SERVICE_UNAVAILABLE,
        ),
    ] {
        let mut service = layer.layer(service_fn(after));
        for (millis, takes, expected) in [
            (999, 999, StatusCode::OK),
            (1_001, 1_000, status),
            (0, 0, StatusCode::OK),
        ] {
            let start = Instant::now();
            let response = service.call(Request::new(millis)).await.unwrap();
            assert_eq!((response.status(), start.elapsed()), (expected, ms(takes)));
            assert_eq!(response.body().is_empty(), expected == status);
            assert!(response.headers().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_has_its_own_limit() {
    let limit = |request: &Request<u64>| match request.uri().path() {
        "/none" => None,
        path => Some(ms(path[1..].parse().unwrap())),
    };
    let timer = Timer::builder().build().unwrap();
    let service = TimeoutLayer::with_timer(limit, &timer).layer(service_fn(after));
    for (path, takes, status) in [
        ("/10", 10, StatusCode::REQUEST_TIMEOUT),
        ("/500", 100, StatusCode::OK),
        ("/none", 100, StatusCode::OK),
        ("/99", 99, StatusCode::REQUEST_TIMEOUT),
    ] {
        let start = Instant::now();
        let request = Request::get(path).body(100).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!((response.status(), start.elapsed()), (status, ms(takes)));
    }
    // The request without a limit has registered no entry.
    assert_eq!(timer.metrics().registered(), 3);
}

/// tower-http panics here.
#[test]
fn a_service_can_be_called_outside_a_runtime() {
    let response = LAYER.layer(service_fn(never)).call(Request::new(0));
    let response = crate::support::paused().block_on(response).unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
}

//! Tests the layer that limits requests, poll by poll.

use std::{
    convert::Infallible,
    future::{Future as _, pending, poll_fn, ready},
    pin::pin,
    task::Poll,
};

use http::{Request, Response, StatusCode};
use tokio::task::{coop, yield_now};
use tokio_wheel::{Duration, Instant, Timer, advance, sleep};
use tokio_wheel_util::http::{Timeout, TimeoutLayer};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use crate::support::{self, Wakes, ms, poll, secs};

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

async fn at_once(_: Request<u64>) -> Answer {
    Ok(Response::new("done".to_owned()))
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
async fn errors_pass_through() {
    let fails = service_fn(async |_: Request<()>| {
        yield_now().await;
        Err::<Response<()>, _>("broken")
    });
    assert_eq!(
        LAYER
            .layer(fails)
            .oneshot(Request::new(()))
            .await
            .unwrap_err(),
        "broken"
    );
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

#[tokio::test(start_paused = true)]
async fn a_response_that_is_ready_at_once_registers_nothing() {
    for limit in [Duration::ZERO, secs(1), Duration::MAX] {
        let response = Timeout::new(service_fn(at_once), limit)
            .oneshot(Request::new(0))
            .await;
        assert_eq!(response.unwrap().status(), StatusCode::OK);
    }
    drop(LAYER.layer(service_fn(never)).call(Request::new(0)));
    assert_eq!(Timer::current().metrics().registered(), 0);
}

/// tower-http polls its timer first and responds with 408 here.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_ready_counts_however_late_it_is_polled() {
    let mut response = Box::pin(LAYER.layer(service_fn(after)).call(Request::new(10)));
    let (_wakes, waker) = Wakes::new();
    assert!(poll(&mut response, &waker).is_pending());
    advance(secs(5)).await;
    assert_eq!(response.await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_request_that_is_canceled_or_answered() {
    let (_wakes, waker) = Wakes::new();
    let mut response = Box::pin(LAYER.layer(service_fn(never)).call(Request::new(0)));
    assert!(poll(&mut response, &waker).is_pending());
    assert_eq!(Timer::current().metrics().pending(), 1);
    drop(response);
    assert_eq!(Timer::current().metrics().pending(), 0);

    let yields = service_fn(async |_: Request<()>| {
        yield_now().await;
        Ok::<_, Infallible>(Response::new(()))
    });
    LAYER.layer(yields).oneshot(Request::new(())).await.unwrap();
    let metrics = Timer::current().metrics();
    assert_eq!((metrics.registered(), metrics.cancelled()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_explicit_timer_is_used() {
    let timer = Timer::builder().build().unwrap();
    let layer = TimeoutLayer::with_timer(ms(10), &timer);
    let services = [
        layer.clone().layer(service_fn(never)),
        layer
            .grpc()
            .deadline()
            .status_code(StatusCode::OK)
            .layer(service_fn(never)),
        Timeout::with_timer(service_fn(never), ms(10), &timer),
    ];
    for (n, service) in services.into_iter().enumerate() {
        service.clone().oneshot(Request::new(0)).await.unwrap();
        assert_eq!(timer.metrics().fired(), n as u64 + 1);
    }
    assert_eq!(Timer::current().metrics().registered(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_uses_up_the_budget_is_cut_off() {
    let greedy = service_fn(async |_: Request<()>| {
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            assert!(polls < 10_000, "the limit never ends the request");
            while pin!(coop::consume_budget()).poll(cx).is_ready() {}
            Poll::<Result<Response<()>, Infallible>>::Pending
        })
        .await
    });
    let response = tokio::spawn(Timeout::new(greedy, ms(10)).call(Request::new(())));
    support::settle().await;
    assert!(!response.is_finished());
    advance(ms(10)).await;
    let response = response.await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
}

/// tower-http panics here.
#[test]
fn a_service_can_be_called_outside_a_runtime() {
    let response = LAYER.layer(service_fn(never)).call(Request::new(0));
    let response = support::paused().block_on(response).unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn the_inner_services_readiness_passes_and_does_not_count() {
    struct Busy(Instant);
    impl Service<Request<()>> for Busy {
        type Response = Response<()>;
        type Error = &'static str;
        type Future = std::future::Ready<Result<Response<()>, &'static str>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), &'static str>> {
            match Instant::now() < self.0 {
                true => Poll::Pending,
                false => Poll::Ready(Err("is never ready")),
            }
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            ready(Ok(Response::new(())))
        }
    }
    let mut service = LAYER.layer(Busy(Instant::now() + secs(60)));
    assert!(poll_fn(|cx| Poll::Ready(service.poll_ready(cx).is_pending())).await);
    advance(secs(60)).await;
    assert_eq!(
        poll_fn(|cx| service.poll_ready(cx)).await,
        Err("is never ready")
    );
    assert_eq!(Timer::current().metrics().registered(), 0);
}

#[test]
fn debug_shows_the_limit() {
    let service = format!("{:?}", LAYER.layer("inner"));
    for part in ["1s", "408", "inner"] {
        assert!(service.contains(part), "{service}");
    }
}

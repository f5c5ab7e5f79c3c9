//! Tests the layer that limits requests. `tests/tower/` tests the future that both layers share.

use super::*;

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
    let (gateway, busy) = (StatusCode::GATEWAY_TIMEOUT, StatusCode::SERVICE_UNAVAILABLE);
    for (layer, status) in [
        (LAYER, StatusCode::REQUEST_TIMEOUT),
        (TimeoutLayer::with_status_code(gateway, secs(1)), gateway),
        (LAYER.status_code(busy), busy),
    ] {
        let mut service = layer.layer(service_fn(after));
        let ok = StatusCode::OK;
        for (millis, takes, expected) in [(999, 999, ok), (1_001, 1_000, status), (0, 0, ok)] {
            let start = Instant::now();
            let response = service.call(Request::new(millis)).await.unwrap();
            assert_eq!((response.status(), start.elapsed()), (expected, ms(takes)));
            assert_eq!(response.body().is_empty(), expected == status);
            assert!(response.headers().is_empty());
        }
    }
}

/// tower-http panics here.
#[test]
fn a_service_can_be_called_outside_a_runtime() {
    let response = LAYER.layer(service_fn(never)).call(Request::new(0));
    let response = crate::support::paused().block_on(response).unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
}

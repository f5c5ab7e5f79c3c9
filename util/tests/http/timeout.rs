//! Tests the layer that limits requests. `tests/tower/` tests the future that both layers share.

use super::*;

const LAYER: TimeoutLayer = TimeoutLayer::new(Duration::from_secs(1));

type Answer = Result<Response<String>, Infallible>;

async fn never(_: Request<u64>) -> Answer {
    pending().await
}

/// `parity` has the times, the headers and the body.
#[tokio::test(start_paused = true)]
async fn a_late_response_has_the_status_of_its_layer() {
    let gateway = StatusCode::GATEWAY_TIMEOUT;
    for (layer, status) in [
        (LAYER, StatusCode::REQUEST_TIMEOUT),
        (TimeoutLayer::with_status_code(gateway, secs(1)), gateway),
    ] {
        let response = layer.layer(service_fn(never)).call(Request::new(0)).await;
        assert_eq!(response.unwrap().status(), status);
    }
}

/// tower-http panics here.
#[test]
fn a_service_can_be_called_outside_a_runtime() {
    let response = LAYER.layer(service_fn(never)).call(Request::new(0));
    let response = crate::support::paused().block_on(response).unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
}

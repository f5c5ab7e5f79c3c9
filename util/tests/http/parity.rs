//! Runs the same code with tower-http's layers and with ours. The events and their virtual times must be equal.

use axum::body::Bytes;

use super::*;

mod original {
    pub(super) use tokio::time::sleep;
    pub(super) use tower_http::timeout::{TimeoutBody, TimeoutLayer};
}
mod wheel {
    pub(super) use tokio_wheel::sleep;
    pub(super) use tokio_wheel_util::http::{TimeoutBody, TimeoutLayer};
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
}

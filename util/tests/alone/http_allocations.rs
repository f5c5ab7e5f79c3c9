//! The layers for HTTP allocate nothing for a request that is answered in time.

use std::{convert::Infallible, future::pending};

use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use stats_alloc::Region;
use tokio::{runtime::Builder, task::yield_now};
use tokio_wheel::{Duration, timeout};
use tokio_wheel_util::http::{
    BodyLimits, RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutLayer,
};
use tower::{Layer as _, Service as _, layer::util::Identity, service_fn};

use super::HEAP;

const LIMIT: Duration = Duration::from_secs(30);
const REQUESTS: usize = 100;

/// Allocates a box and responds. It responds to `/` at once, and to other paths after one pending poll.
async fn answer<B>(request: Request<B>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let path = Box::new(request.uri().path().len());
    if *path > 1 {
        yield_now().await;
    }
    Ok(Response::new(Empty::new()))
}

/// Counts the allocations for [`REQUESTS`] requests and their bodies.
macro_rules! allocations {
    ($layer:expr) => {{
        let mut service = $layer.layer(service_fn(answer));
        let mut least = usize::MAX;
        for _ in 0..10 {
            let region = Region::new(HEAP);
            for path in ["/", "/pending"].into_iter().cycle().take(REQUESTS) {
                let mut request = Request::new(Empty::<Bytes>::new());
                *request.uri_mut() = http::Uri::from_static(path);
                let response = service.call(request).await.unwrap();
                response.into_body().collect().await.unwrap();
            }
            least = least.min(region.change().allocations);
        }
        least
    }};
}

#[test]
fn a_request_in_time_allocates_nothing() {
    let _alone = super::alone();
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(requests_in_time());
}

async fn requests_in_time() {
    // Another sleep is pending, as on any server. So the wheel has allocated its memory already.
    let other = tokio::spawn(timeout(LIMIT * 100, pending::<()>()));
    yield_now().await;

    let limits = BodyLimits::new().frame_timeout(LIMIT).body_timeout(LIMIT);
    let inner = allocations!(Identity::new());
    assert_eq!(inner, REQUESTS);
    let layer = TimeoutLayer::new(LIMIT);
    let of_request = RequestBodyTimeoutLayer::with_limits(limits);
    let of_response = ResponseBodyTimeoutLayer::with_limits(limits);
    assert_eq!(allocations!(layer.clone()), inner);
    assert_eq!(allocations!(layer.clone().grpc()), inner);
    assert_eq!(allocations!(of_request.clone()), inner);
    assert_eq!(allocations!(of_response.clone()), inner);
    assert_eq!(
        allocations!((layer.clone(), of_request, of_response)),
        inner
    );
    other.abort();
}

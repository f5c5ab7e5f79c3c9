//! Tests the scope that a layer opens around a handler, and the headers that pass its deadline on.

use super::*;

type Look = BoxCloneService<Request<()>, Response<Option<Duration>>, Infallible>;

async fn look(_: Request<()>) -> Result<Response<Option<Duration>>, Infallible> {
    Ok(Response::new(remaining()))
}

/// Returns how much time is left for the innermost service.
async fn found<L, S>(layer: L, request: Request<()>) -> Option<Duration>
where
    L: Layer<Look, Service = S>,
    S: Service<Request<()>, Response = Response<Option<Duration>>, Error = Infallible>,
{
    let service = layer.layer(BoxCloneService::new(service_fn(look)));
    service.oneshot(request).await.unwrap().into_body()
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_in_the_scope_of_its_limit() {
    let request = || Request::new(());
    let layer = TimeoutLayer::new;
    assert_eq!(found(layer(secs(10)), request()).await, Some(secs(10)));
    let unlimited = TimeoutLayer::new(|_: &Request<()>| None);
    assert_eq!(found(unlimited, request()).await, None);
    for (outer, inner) in [(10, 20), (20, 10), (10, 10)] {
        let layers = (layer(secs(outer)), layer(secs(inner)));
        assert_eq!(found(layers, request()).await, Some(secs(10)));
    }
    assert_eq!(remaining(), None);
}

#[tokio::test(start_paused = true)]
async fn it_follows_the_headers() {
    for (name, value, left) in [
        ("grpc-timeout", "3S", 3),
        ("grpc-timeout", "30S", 10),
        ("x-envoy-expected-rq-timeout-ms", "3000", 3),
        ("x-envoy-expected-rq-timeout-ms", "30000", 10),
        ("x-envoy-expected-rq-timeout-ms", "0", 10),
        ("x-envoy-expected-rq-timeout-ms", "-5", 10),
        ("x-envoy-expected-rq-timeout-ms", "soon", 10),
    ] {
        let request = || Request::get("/").header(name, value).body(()).unwrap();
        let layer = TimeoutLayer::new(secs(10));
        assert_eq!(found(layer.clone(), request()).await, Some(secs(10)));
        let layer = layer.grpc().header(EXPECTED_RQ_TIMEOUT_MS);
        assert_eq!(found(layer, request()).await, Some(secs(left)), "{value}");
    }
}

/// Without a handler between them, the call of the client is in the scope.
#[tokio::test(start_paused = true)]
async fn a_client_tells_the_remaining_milliseconds() {
    let name = HeaderName::from_static("x-left");
    for (limit, given, told) in [
        (Some(ms(1_500)), None, Some("1500")),
        (Some(ms(1_500)), Some("2000"), Some("1500")),
        (Some(ms(1_500)), Some("1000"), Some("1000")),
        (Some(ms(1_500)), Some("0"), Some("1500")),
        (Some(Duration::from_micros(10)), None, Some("1")),
        (None, Some("5"), Some("5")),
        (None, None, None),
    ] {
        let look = service_fn(async |request: Request<()>| {
            Ok::<_, Infallible>(Response::new(request.headers().get("x-left").cloned()))
        });
        let limit = TimeoutLayer::new(move |_: &Request<()>| limit);
        let service = (limit, TimeoutHeaderLayer::new(name.clone())).layer(look);
        let mut request = Request::new(());
        if let Some(given) = given {
            request
                .headers_mut()
                .insert(&name, HeaderValue::from_static(given));
        }
        let found = service.oneshot(request).await.unwrap().into_body();
        assert_eq!(found.as_ref().map(|it| it.to_str().unwrap()), told);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_response_says_which_limit_has_ended_it() {
    let polls = std::cell::Cell::new(0);
    let handler = service_fn(async |_: Request<()>| {
        polls.set(polls.get() + 1);
        within(secs(30), sleep(secs(1))).await.unwrap();
        polls.set(polls.get() + 1);
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    let (line, layer) = (line!(), TimeoutLayer::new(secs(1)));
    let response = layer
        .layer(handler)
        .oneshot(Request::new(()))
        .await
        .unwrap();
    assert_eq!(
        (response.status(), polls.get()),
        (StatusCode::REQUEST_TIMEOUT, 1)
    );
    let exceeded: &Exceeded = response.extensions().get().unwrap();
    let deadline: Deadline = exceeded.deadline();
    assert_eq!(
        (deadline.name(), deadline.limit()),
        (Some("request"), secs(1))
    );
    assert_eq!(
        (deadline.location().file(), deadline.location().line()),
        (file!(), line)
    );
    assert!(!exceeded.is_outer());
}

//! Tests the deadline that a handler gets.

use super::*;

type Look = BoxCloneService<Request<()>, Response<Option<Deadline>>, Infallible>;

async fn look(request: Request<()>) -> Result<Response<Option<Deadline>>, Infallible> {
    Ok(Response::new(request.extensions().get().copied()))
}

/// Returns how far away the deadline is that the innermost service finds.
async fn found<L, S>(layer: L) -> Option<Duration>
where
    L: Layer<Look, Service = S>,
    S: Service<Request<()>, Response = Response<Option<Deadline>>, Error = Infallible>,
{
    let service = layer.layer(BoxCloneService::new(service_fn(look)));
    let response = service.oneshot(Request::new(())).await.unwrap();
    let deadline = response.into_body()?;
    Some(deadline.instant() - Instant::now())
}

#[tokio::test(start_paused = true)]
async fn it_is_there_if_it_is_asked_for_and_there_is_a_limit() {
    let layer = TimeoutLayer::new(secs(10));
    assert_eq!(found(layer.clone()).await, None);
    assert_eq!(found(layer.insert_deadline()).await, Some(secs(10)));
    let unlimited = TimeoutLayer::new(|_: &Request<()>| None).insert_deadline();
    assert_eq!(found(unlimited).await, None);
}

#[tokio::test(start_paused = true)]
async fn of_nested_layers_the_earlier_deadline_stays() {
    for (outer, inner, expected) in [(10, 20, 10), (20, 10, 10), (10, 10, 10)] {
        let outer = TimeoutLayer::new(secs(outer)).insert_deadline();
        let inner = TimeoutLayer::new(secs(inner)).insert_deadline();
        assert_eq!(found((outer, inner)).await, Some(secs(expected)));
    }
    // An inner layer that sets no deadline keeps the deadline of the outer layer.
    let layers = (
        TimeoutLayer::new(secs(10)).insert_deadline(),
        TimeoutLayer::new(secs(1)),
    );
    assert_eq!(found(layers).await, Some(secs(10)));
}

#[tokio::test(start_paused = true)]
async fn it_follows_the_header_of_grpc() {
    let layer = TimeoutLayer::new(secs(10)).grpc().insert_deadline();
    let request = Request::get("/").header("grpc-timeout", "3S");
    let response = layer
        .layer(service_fn(look))
        .oneshot(request.body(()).unwrap());
    let deadline = response.await.unwrap().into_body().unwrap();
    assert_eq!(deadline.remaining(), secs(3));
    sleep(secs(2)).await;
    assert_eq!(deadline.remaining(), secs(1));
    sleep(secs(2)).await;
    assert_eq!(deadline.remaining(), Duration::ZERO);
}

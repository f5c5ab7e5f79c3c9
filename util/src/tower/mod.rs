//! A timeout for requests, as a [tower layer](tower_layer::Layer) that replaces `tower::timeout`.
//!
//! If the response to a request is not ready in time, the request fails with a boxed
//! [`Elapsed`](tokio_wheel::error::Elapsed). An axum application must turn this error into a response. To do so,
//! put `HandleErrorLayer` around the timeout:
//!
//! ```
//! use axum::{
//!     body::Body, error_handling::HandleErrorLayer, http::{Request, StatusCode}, routing::get,
//!     BoxError, Router,
//! };
//! use tokio_wheel::{error::Elapsed, sleep, Duration};
//! use tokio_wheel_util::tower::TimeoutLayer;
//! use tower::ServiceExt as _;
//!
//! async fn status(error: BoxError) -> StatusCode {
//!     if error.is::<Elapsed>() {
//!         StatusCode::GATEWAY_TIMEOUT // Use REQUEST_TIMEOUT if the client was slow.
//!     } else {
//!         StatusCode::INTERNAL_SERVER_ERROR
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let app = Router::new()
//!     .route("/fast", get(async || "done"))
//!     .route("/slow", get(async || sleep(Duration::from_secs(60)).await))
//!     .layer((
//!         HandleErrorLayer::new(status),
//!         TimeoutLayer::new(Duration::from_secs(10)),
//!     ));
//!
//! let request = |path| Request::get(path).body(Body::empty()).unwrap();
//! let answer = app.clone().oneshot(request("/fast")).await.unwrap();
//! assert_eq!(answer.status(), StatusCode::OK);
//! let answer = app.oneshot(request("/slow")).await.unwrap();
//! assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
//! # }
//! ```
//!
//! The limit applies until the future of the service is ready. The future of an HTTP service is ready when
//! the head of the response is ready. So the limit does not cover the body of the response.
//!
//! The module `http` (feature `http`) has a layer that responds with a status code instead of an error. The
//! module also has layers that limit bodies.
//!
//! # A limit for each request
//!
//! [`TimeoutLayer`] and [`Timeout`] also accept a closure instead of a [`Duration`](std::time::Duration). The
//! closure gets the request and returns how long the request may take. `None` means no limit:
//!
//! ```
//! use tokio_wheel::{error::Elapsed, sleep, Duration};
//! use tokio_wheel_util::tower::TimeoutLayer;
//! use tower::{Layer as _, Service as _, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let limit = |command: &&str| match *command {
//!     "backup" => None,
//!     _ => Some(Duration::from_secs(1)),
//! };
//! let slow = service_fn(async |command: &str| {
//!     sleep(Duration::from_secs(60)).await;
//!     Ok::<_, String>(command.len())
//! });
//!
//! let mut service = TimeoutLayer::new(limit).layer(slow);
//! assert_eq!(service.call("backup").await?, 6);
//! assert!(service.call("ping").await.unwrap_err().is::<Elapsed>());
//! # Ok(())
//! # }
//! ```

mod service;
mod timeout;

pub(crate) use service::service;
pub use timeout::{Limit, ResponseFuture, Timeout, TimeoutLayer};

//! A timeout as a [tower layer](tower_layer::Layer), as that of `tower::timeout`.
//!
//! A request that is not answered in time fails with an [`Elapsed`](crate::error::Elapsed) in a
//! box. An axum application has to turn that into a response; `HandleErrorLayer` goes around the
//! timeout and does it:
//!
//! ```
//! use axum::{
//!     body::Body, error_handling::HandleErrorLayer, http::{Request, StatusCode}, routing::get,
//!     BoxError, Router,
//! };
//! use tokio_wheel::{error::Elapsed, sleep, tower::TimeoutLayer, Duration};
//! use tower::ServiceExt as _;
//!
//! async fn status(error: BoxError) -> StatusCode {
//!     if error.is::<Elapsed>() {
//!         StatusCode::GATEWAY_TIMEOUT // Or 408, REQUEST_TIMEOUT, if the client was the slow one.
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
//! The limit is on the service's future, which for HTTP is ready with the head of the response: a
//! body that is streamed afterwards takes as long as it likes.
//!
//! The module `http`, of the feature of this name, answers such a request with a status
//! itself. It limits bodies too.
//!
//! # A limit for each request
//!
//! [`TimeoutLayer`] and [`Timeout`] take a closure in place of a [`Duration`](std::time::Duration). It gets
//! the request and returns how long the request may take. `None` stands for no limit:
//!
//! ```
//! use tokio_wheel::{error::Elapsed, sleep, tower::TimeoutLayer, Duration};
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

mod limit;
mod limited;
mod timeout;

pub use limit::Limit;
#[cfg(feature = "http")]
pub(crate) use limited::Limited;
pub use timeout::{ResponseFuture, Timeout, TimeoutLayer};

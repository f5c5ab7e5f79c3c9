//! Timeouts for HTTP requests and bodies, as [tower layers](tower_layer::Layer).
//!
//! | layer | limits |
//! |---|---|
//! | [`TimeoutLayer`] | the time until the head of a response |
//! | [`RequestBodyTimeoutLayer`] | the time in which a handler waits for a request's body |
//! | [`ResponseBodyTimeoutLayer`] | the time in which the server waits for a response's body |
//! | [`TimeoutHeaderLayer`], for clients | nothing: it tells the server the remaining time |
//!
//! The layers are named like those of tower-http, and can [do more](#differences-from-tower-http). An axum server can use them
//! without `HandleErrorLayer`:
//!
//! ```no_run
//! use axum::{Router, body::Bytes, routing::post};
//! use tokio_wheel_util::http::{BodyLimits, RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutLayer};
//! use tokio_wheel::Duration;
//!
//! # #[tokio::main]
//! # async fn main() -> std::io::Result<()> {
//! let frame = Duration::from_secs(10);
//! let upload = BodyLimits::new().frame_timeout(frame).body_timeout(Duration::from_secs(60));
//! let app = Router::new()
//!     .route("/", post(async |body: Bytes| body))
//!     .layer((
//!         TimeoutLayer::new(Duration::from_secs(90)),
//!         RequestBodyTimeoutLayer::with_limits(upload),
//!         ResponseBodyTimeoutLayer::new(frame),
//!     ));
//! axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app).await
//! # }
//! ```
//!
//! # What each limit does
//!
//! | limit | begins | ends | catches | the client gets |
//! |---|---|---|---|---|
//! | [`TimeoutLayer`] | when the service is called | when the head of the response is ready | a slow handler, or a slow upload for which the handler waits | 408 or another [status](TimeoutLayer::with_status_code); a gRPC client gets `DEADLINE_EXCEEDED` |
//! | [`RequestBodyTimeoutLayer`], [frame](BodyLimits::frame_timeout) | when the handler waits for a frame | when the frame arrives | a client that stalls | the handler's response to the error; axum's extractors respond with 400 |
//! | [`RequestBodyTimeoutLayer`], [body](BodyLimits::body_timeout) | when the handler's first wait begins | when the handler's last wait ends | a client that sends slowly | the handler's response to the error |
//! | [`ResponseBodyTimeoutLayer`], [frame](BodyLimits::frame_timeout) | when hyper waits for a frame | when the frame is ready | a handler or an upstream that stalls | HTTP/1: the connection closes before the end of the body; HTTP/2: a stream reset with `INTERNAL_ERROR` |
//! | [`ResponseBodyTimeoutLayer`], [body](BodyLimits::body_timeout) | when hyper's first wait begins | when hyper's last wait ends | a handler or an upstream that sends slowly | a closed connection or a stream reset |
//!
//! After a `TimeoutLayer` has responded, the connection stays open, unless an HTTP/1 client is still sending its body.
//!
//! A layer cannot limit how long a client takes to send the head of a request, to read a response, or to send its next
//! request. For these, limit the connection with hyper's `header_read_timeout` and the modules `io` and `hyper`.
//!
//! # What the limits of a body measure
//!
//! The frame limit and the body limit measure only how long the reader waits: from a poll that finds no frame until a poll
//! that returns one.
//!
//! * The time before the first poll does not count. If a handler never reads the body, only [`TimeoutLayer`] ends the
//!   request.
//! * The time between a frame and the next poll does not count, so a slow handler does not use up the time of its client.
//! * If a reader stops waiting to do something else, as in a `select!`, the wait continues, because the body cannot know whether
//!   another poll follows.
//! * A poll returns a frame that is ready, even if the reader polls late.
//! * On HTTP/2, all streams of a connection share a flow-control window. A handler that does not read its body can use up the
//!   window, and then the limits of other streams run although their clients cannot send.
//!
//! hyper polls the body of a response only while hyper has room for a frame:
//!
//! * On HTTP/1, hyper copies the frame to a buffer. By default, the buffer holds about 400 KiB or 16 frames.
//! * On HTTP/2, hyper holds one frame until the client's flow control lets hyper send this frame.
//!
//! While a client reads slowly, hyper does not poll the body, so this time does not count, and these limits never end the
//! response.
//!
//! # A limit for each request
//!
//! [`TimeoutLayer::new`] takes a [`Duration`](std::time::Duration) or a closure. The closure gets the request
//! and returns how long the request may take. `None` means no limit. The trait [`Limit`](crate::tower::Limit)
//! has the details.
//!
//! With [`TimeoutLayer::grpc`], the limit can also come from the header `grpc-timeout`, and with [`TimeoutLayer::header`] from
//! another header. The handler runs in a [scope](crate::deadline): it can ask for the remaining time, and a
//! [`TimeoutHeaderLayer`] around a client passes it to other servers.
//!
//! # Errors
//!
//! A body that exceeds a limit fails with a [`LimitExceeded`]. [`LimitExceeded::find`] finds it inside the errors of hyper
//! and axum.
//!
//! A request that takes too long does not fail, because [`TimeoutLayer`] responds to it. To choose the response yourself, use
//! the layer of the module [`tower`](crate::tower), with which the request fails.
//!
//! # Differences from tower-http
//!
//! | | tower-http 0.6 | this module |
//! |---|---|---|
//! | a limit for each request | no | yes |
//! | a limit from `grpc-timeout` or another header | no | yes |
//! | a handler, and what it calls, know how much time is left | no | yes |
//! | limits of a body | for each frame | for each frame, and for the whole body |
//! | error of a body | says that the body timed out | contains the limit that was exceeded |
//! | frame that is ready but polled late | is lost | is returned |
//! | length and end of a body | are hidden: HTTP/1 sends chunks instead of `content-length` | are visible |
//! | response or frame that is ready at once | registers a timer | registers no entry in the timer |
//! | response or frame that is ready at once, with a limit of zero | is lost | is returned |
//! | timer of a body | is created again for each frame | has one entry, whose deadline moves |
//! | traits of `TimeoutBody` | neither `Unpin` nor `Default`, so `TimeoutLayer` cannot wrap the layer for response bodies | `Unpin` and `Default`, if the inner body has them |
//! | poll of a `TimeoutBody` after its error | fails again | reports the end of the body |
//! | call of a service outside a runtime | panics | works |
//!
//! Most types keep their names. Change these:
//!
//! | tower-http | this module |
//! |---|---|
//! | `Timeout::with_status_code(inner, status, limit)` | `TimeoutLayer::with_status_code(status, limit).layer(inner)` |
//! | `RequestBodyDeadlineLayer::new(limit)` (0.7) | `RequestBodyTimeoutLayer::with_limits(BodyLimits::new().body_timeout(limit))` |
//! | `ResponseBodyDeadlineLayer::new(limit)` (0.7) | the same with `ResponseBodyTimeoutLayer` |
//! | `DeadlineBody::new(limit, body)` (0.7) | `TimeoutBody::with_limits(BodyLimits::new().body_timeout(limit), body)` |
//! | a downcast to `TimeoutError` | [`LimitExceeded::find`] |
//!
//! In tower-http 0.7, the limit of a `DeadlineBody` starts when the body is created, so it also ends responses to clients that
//! read slowly. [`BodyLimits::body_timeout`] measures only waits.

mod body;
mod body_layers;
mod body_limits;
mod grpc;
mod timeout;
mod timeout_header;

pub use body::TimeoutBody;
pub use body_layers::{
    RequestBodyTimeout, RequestBodyTimeoutLayer, ResponseBodyFuture, ResponseBodyTimeout,
    ResponseBodyTimeoutLayer,
};
pub use body_limits::{BodyLimits, LimitExceeded};
pub use grpc::{format_grpc_timeout, parse_grpc_timeout};
pub use timeout::{ResponseFuture, Timeout, TimeoutLayer};
pub use timeout_header::{EXPECTED_RQ_TIMEOUT_MS, TimeoutHeader, TimeoutHeaderLayer};

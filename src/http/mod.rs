//! Timeouts of HTTP requests and bodies, as [tower layers](tower_layer::Layer).
//!
//! | layer | limits |
//! |---|---|
//! | [`TimeoutLayer`] | the time until the head of a response |
//! | [`RequestBodyTimeoutLayer`] | the time in which a handler waits for a request's body |
//! | [`ResponseBodyTimeoutLayer`] | the time in which the server waits for a response's body |
//!
//! The layers have the same names as tower-http's layers and can [do more](#differences-from-tower-http). An axum
//! server uses them without `HandleErrorLayer`:
//!
//! ```no_run
//! use axum::{Router, body::Bytes, routing::post};
//! use tokio_wheel::http::{BodyLimits, RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutLayer};
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
//! | [`TimeoutLayer`] | when the service is called | with the head of the response | a slow handler, or a slow upload that the handler waits for | 408 or another [status](TimeoutLayer::status_code); a gRPC client gets `DEADLINE_EXCEEDED` |
//! | [`RequestBodyTimeoutLayer`], [frame](BodyLimits::frame_timeout) | when the handler waits for a frame | with the frame | a client that stalls | the handler's response to the error; axum's extractors respond with 400 |
//! | [`RequestBodyTimeoutLayer`], [body](BodyLimits::body_timeout) | with the first wait | with the last wait | a client that sends slowly | the handler's response to the error |
//! | [`ResponseBodyTimeoutLayer`], [frame](BodyLimits::frame_timeout) | when hyper waits for a frame | with the frame | a handler or an upstream that stalls | HTTP/1: the connection closes within the body; HTTP/2: a stream reset with `INTERNAL_ERROR` |
//! | [`ResponseBodyTimeoutLayer`], [body](BodyLimits::body_timeout) | with the first wait | with the last wait | a handler or an upstream that sends slowly | a closed connection or a stream reset |
//!
//! After a `TimeoutLayer` has responded, the connection stays open. The only exception is an HTTP/1 client that is still
//! sending its body: hyper then closes the connection.
//!
//! A layer cannot limit how long a client takes for these steps:
//!
//! * to send the head of a request
//! * to read a response
//! * to send its next request
//!
//! Limits of the connection do this: hyper's `header_read_timeout` and the modules `io` and `hyper`.
//!
//! # What the limits of a body count
//!
//! Both limits of a body count the time in which its reader waits. A wait begins when the reader polls the body and
//! there is no frame. It ends when a poll returns a frame.
//!
//! * Time before the first poll does not count. If a handler never reads the body, only [`TimeoutLayer`] ends the
//!   request.
//! * Time between a frame and the next poll does not count. A slow handler does not use up its client's time.
//! * A frame that is ready counts as in time, even if it is polled late.
//! * On HTTP/2, all streams of a connection share a flow-control window. A handler that does not read its body can use
//!   up the window. Another stream then waits for a client that may not send.
//!
//! hyper polls a response's body only while it has room for a frame:
//!
//! * On HTTP/1, the room is a buffer. By default it holds about 400 KiB or 16 frames.
//! * On HTTP/2, hyper holds one frame until the client's flow control lets it send the frame.
//!
//! A client that reads slowly keeps hyper from polling, and this time does not count. So the limits here never end a
//! response because its client reads slowly.
//!
//! A body has at most one entry in the timer. Each wait moves the entry's deadline in place.
//!
//! # A limit for each request
//!
//! [`TimeoutLayer::new`] takes a [`Duration`](std::time::Duration) or a closure. The closure gets the request and
//! returns how long it may take, or `None` for no [`Limit`](crate::tower::Limit).
//!
//! [`TimeoutLayer::grpc`] also reads the header `grpc-timeout`. [`TimeoutLayer::deadline`] tells the handler how much
//! time is left.
//!
//! # Errors
//!
//! A body fails with a [`LimitExceeded`]. [`LimitExceeded::find`] finds it inside the errors of hyper and axum.
//!
//! A request that takes too long does not fail: the layer responds to it. The layer of the module
//! [`tower`](crate::tower) fails instead, and the application chooses the response.
//!
//! # Differences from tower-http
//!
//! | | tower-http 0.6 | this module |
//! |---|---|---|
//! | a limit for each request, `grpc-timeout`, and the time left for handlers | no | yes |
//! | limits of a body | between frames | between frames, and for the whole body |
//! | error of a body | says that it timed out | has the limit that was exceeded |
//! | response or frame that is ready but polled late | is lost | counts as in time |
//! | length and end of a body | are hidden: HTTP/1 sends chunks instead of `content-length` | are visible |
//! | response or frame that is ready at once | registers a timer | registers no timer |
//! | response or frame that is ready at once, with a limit of zero | is lost | counts as in time |
//! | timer of a body | is created again for each frame | moves in place |
//! | `TimeoutBody` | neither `Unpin` nor `Default`, so `TimeoutLayer` cannot wrap a layer of response bodies | `Unpin` and `Default`, if the inner body is |
//! | `TimeoutBody` after its error | fails again at each poll | ends |
//! | call of a service outside a runtime | panics | works |
//!
//! `DeadlineBody` of tower-http 0.7 counts from the creation of the body. So it also ends responses to clients that
//! read slowly. [`BodyLimits::body_timeout`] counts waits only.

mod answer;
mod body;
mod deadline;
mod error;
mod grpc;
mod limits;
mod request_body;
mod response_body;
mod timeout;
mod waits;

pub use body::TimeoutBody;
pub use deadline::Deadline;
pub use error::LimitExceeded;
pub use grpc::{GrpcTimeoutError, parse_grpc_timeout};
pub use limits::BodyLimits;
pub use request_body::{RequestBodyTimeout, RequestBodyTimeoutLayer};
pub use response_body::{ResponseBodyFuture, ResponseBodyTimeout, ResponseBodyTimeoutLayer};
pub use timeout::{ResponseFuture, Timeout, TimeoutLayer};

/// Defines the methods that return the inner service of a service.
macro_rules! inner_service {
    ($service:literal) => {
        /// Returns a reference to the inner service.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use tokio_wheel::{http::", $service, ", Duration};")]
        ///
        #[doc = concat!("let service = ", $service, "::new(\"any service\", Duration::from_secs(30));")]
        /// assert_eq!(*service.get_ref(), "any service");
        /// ```
        #[must_use]
        pub fn get_ref(&self) -> &S {
            &self.inner
        }

        /// Returns a mutable reference to the inner service.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use tokio_wheel::{http::", $service, ", Duration};")]
        ///
        #[doc = concat!("let mut service = ", $service, "::new(\"any service\", Duration::from_secs(30));")]
        /// *service.get_mut() = "another";
        /// assert_eq!(service.into_inner(), "another");
        /// ```
        #[must_use]
        pub fn get_mut(&mut self) -> &mut S {
            &mut self.inner
        }

        /// Removes the limits and returns the inner service.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use tokio_wheel::{http::", $service, ", Duration};")]
        ///
        #[doc = concat!("let service = ", $service, "::new(\"any service\", Duration::from_secs(30));")]
        /// assert_eq!(service.into_inner(), "any service");
        /// ```
        pub fn into_inner(self) -> S {
            self.inner
        }
    };
}
use inner_service;

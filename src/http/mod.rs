//! Timeouts of HTTP requests and of their bodies, as [tower layers](tower_layer::Layer).
//!
//! The layers have the names of tower-http's, and do more. An axum server takes them without
//! `HandleErrorLayer`:
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
//! # Which limit cuts off what
//!
//! | limit | begins | ends | cuts off | the client sees |
//! |---|---|---|---|---|
//! | [`TimeoutLayer`] | with the call of the service | with the head of the response | a slow handler, and a slow upload that the handler waits for | 408 or another [status](TimeoutLayer::status_code); for gRPC, `DEADLINE_EXCEEDED` |
//! | [`RequestBodyTimeoutLayer`], [frame](BodyLimits::frame_timeout) | when the handler waits for a frame | with the frame | a client that stalls | what the handler answers to the error; 400 if it is one of axum's extractors |
//! | the same, [body](BodyLimits::body_timeout) | with the first such wait | with the last | a client that dribbles | the same |
//! | [`ResponseBodyTimeoutLayer`], [frame](BodyLimits::frame_timeout) | when hyper waits for a frame | with the frame | a handler or an upstream that stalls | HTTP/1: the connection ends within the body; HTTP/2: the stream is reset with `INTERNAL_ERROR` |
//! | the same, [body](BodyLimits::body_timeout) | with the first such wait | with the last | a handler or an upstream that dribbles | the same |
//!
//! An HTTP/1 connection goes on after the answer to a late request, unless the client is still sending its body:
//! hyper then closes the connection. HTTP/2 connections always go on.
//!
//! No layer sees a client that is slow to send the head of its request, to read a response, or to send its next
//! request. These need limits of the connection: hyper's `header_read_timeout`, and the modules `io` and `hyper`.
//!
//! # What the limits of a body count
//!
//! Both limits of a body count the time in which its reader waits, and nothing else. A wait begins when the reader
//! polls the body and there is no frame. It ends when a poll returns a frame.
//!
//! * Time before the first poll does not count. A handler that does not read the body is cut off by [`TimeoutLayer`]
//!   alone.
//! * Time between a frame and the next poll does not count. So a handler that is slow with what it has read does not
//!   use up its client's time.
//! * A frame that is ready counts, however late it is polled.
//! * On HTTP/2, all streams of a connection share a window. A handler that does not read its body can use up the window, so
//!   that another stream waits for a client that may not send.
//!
//! hyper polls a response's body only while it has room for a frame. On HTTP/1 that is a buffer, by default of about
//! 400 KiB or 16 frames. On HTTP/2, hyper holds one frame until the client's flow control lets it send. A client that
//! reads slowly keeps hyper from polling, and that time counts for no limit. So no limit here takes a slow reader for a
//! slow handler, and none ends a client that reads slowly.
//!
//! A body has at most one entry in the wheel. Each wait moves its deadline in place.
//!
//! # A limit for each request
//!
//! [`TimeoutLayer::new`] takes a [`Duration`](std::time::Duration), or a closure that gets the request and returns how
//! long it may take: see [`Limit`](crate::tower::Limit). [`TimeoutLayer::grpc`] also obeys the header `grpc-timeout`.
//! [`TimeoutLayer::deadline`] tells the handler how much time is left.
//!
//! # Errors
//!
//! A body fails with a [`LimitExceeded`]. [`LimitExceeded::find`] finds it in the errors of hyper and axum.
//!
//! A request whose time is over does not fail: it has an answer. The layer of the module [`tower`](crate::tower) fails,
//! and leaves the answer to the application.
//!
//! # What differs from tower-http
//!
//! | | tower-http 0.6 | here |
//! |---|---|---|
//! | a limit for each request, `grpc-timeout`, the time that is left | no | yes |
//! | limits of a body | between frames | between frames, and of the whole body |
//! | what an error of a body says | that there was a timeout | which limit was exceeded, and its length |
//! | a response or a frame that is ready when it is polled after its time | is lost | counts |
//! | a body that knows its length or its end | does not tell: HTTP/1 sends chunks in place of `content-length` | tells |
//! | a response or a frame that is ready at once | registers a timer first, and is lost if the limit is zero | registers none |
//! | the timer of a body | is a new one for each frame | is moved in place |
//! | `TimeoutBody` | neither `Unpin` nor `Default`: no `TimeoutLayer` fits around a layer of response bodies | both, if the inner body is |
//! | `TimeoutBody` after its error | fails again at each poll | ends |
//! | calling a service outside of a runtime | panics | is fine |
//!
//! `DeadlineBody` of tower-http 0.7 counts from when the body is created, so it cuts off slow readers too.
//! [`BodyLimits::body_timeout`] counts waits alone.

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

/// The methods of a service that give access to its inner service.
macro_rules! inner_service {
    ($service:literal) => {
        /// Returns the inner service.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use tokio_wheel::{http::", $service, ", Duration};")]
        ///
        #[doc = concat!("let service = ", $service, "::new(\"any service\", Duration::from_secs(30));")]
        /// assert_eq!(*service.get_ref(), "any service");
        /// ```
        pub fn get_ref(&self) -> &S {
            &self.inner
        }

        /// Returns the inner service, mutably.
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
        pub fn get_mut(&mut self) -> &mut S {
            &mut self.inner
        }

        /// Gives up the limits and returns the inner service.
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

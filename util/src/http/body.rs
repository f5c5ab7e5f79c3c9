//! A body whose frames must arrive in time, its limits, and its error.

use std::{
    error::Error,
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio_wheel::Timer;

use super::wait::Wait;
use crate::limit::setters;

/// The limits of a [`TimeoutBody`].
///
/// `None` means no limit. The [module](super#what-the-limits-of-a-body-measure) explains what each limit
/// measures.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::http::BodyLimits;
///
/// const LIMITS: BodyLimits = BodyLimits::new()
///     .frame_timeout(Duration::from_secs(10))
///     .body_timeout(Duration::from_secs(60));
/// assert_eq!(LIMITS.frame_timeout, Some(Duration::from_secs(10)));
/// assert_eq!(LIMITS.body_timeout, Some(Duration::from_secs(60)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "limits do nothing until a layer or a body gets them"]
#[non_exhaustive]
pub struct BodyLimits {
    /// The longest time that a reader may wait for a frame.
    pub frame_timeout: Option<Duration>,
    /// The longest time that a reader may wait for all frames together.
    pub body_timeout: Option<Duration>,
}

impl BodyLimits {
    /// Creates a value without any limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::http::BodyLimits;
    ///
    /// assert_eq!(BodyLimits::new(), BodyLimits::default());
    /// assert_eq!(BodyLimits::new().frame_timeout, None);
    /// ```
    pub const fn new() -> Self {
        Self {
            frame_timeout: None,
            body_timeout: None,
        }
    }

    setters! {
        /// Limits the wait for each frame.
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::http::BodyLimits;
        ///
        /// let limits = BodyLimits::new().frame_timeout(Duration::from_secs(10));
        /// assert_eq!(limits.frame_timeout, Some(Duration::from_secs(10)));
        /// assert_eq!(limits.body_timeout, None);
        /// ```
        frame_timeout: Duration;

        /// Limits the sum of all waits.
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::http::BodyLimits;
        ///
        /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
        /// assert_eq!(limits.frame_timeout, None);
        /// assert_eq!(limits.body_timeout, Some(Duration::from_secs(60)));
        /// ```
        body_timeout: Duration;
    }
}

pin_project! {
    /// A body that fails if its reader waits too long.
    ///
    /// The [module](super#what-the-limits-of-a-body-measure) explains what the limits measure. The frames,
    /// the trailers and the size hint of the inner body stay unchanged. [`Default`] wraps the default of the
    /// inner body and sets no limit.
    ///
    /// # Cancel safety
    ///
    /// A caller may stop waiting for a frame and poll again later. No frame is lost. The wait continues until the
    /// inner body wakes the caller. The time from then until the next poll counts for no limit.
    ///
    /// # Panics
    ///
    /// A poll can panic if the inner body is pending and a limit is set. With the default timer, the poll
    /// then panics in the cases that [`sleep`](tokio_wheel::sleep()) lists.
    ///
    /// # Errors
    ///
    /// The body fails with the inner body's error, or with a [`LimitExceeded`](super::LimitExceeded) in a
    /// box. After a `LimitExceeded`, the body has ended, and its size hint is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use http_body_util::{BodyExt as _, StreamBody};
    /// use hyper::body::{Bytes, Frame};
    /// use tokio_stream::StreamExt as _;
    /// use tokio_wheel_util::http::{BodyLimits, LimitExceeded, TimeoutBody};
    /// use tokio_wheel::{sleep, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// // A frame arrives every five seconds, and the body never ends.
    /// let frames = tokio_stream::iter(std::iter::repeat("tick")).then(async |tick| {
    ///     sleep(Duration::from_secs(5)).await;
    ///     Ok::<_, std::io::Error>(Frame::data(Bytes::from(tick)))
    /// });
    ///
    /// let limits = BodyLimits::new()
    ///     .frame_timeout(Duration::from_secs(10))
    ///     .body_timeout(Duration::from_secs(60));
    /// let body = TimeoutBody::with_limits(limits, StreamBody::new(frames));
    /// let error = body.collect().await.unwrap_err();
    ///
    /// let exceeded = LimitExceeded::Body(Duration::from_secs(60));
    /// assert_eq!(LimitExceeded::find(&*error), Some(exceeded));
    /// # }
    /// ```
    #[derive(Debug)]
    #[must_use = "a body does nothing unless it is polled"]
    pub struct TimeoutBody<B> {
        #[pin]
        body: B,
        wait: Wait,
        // Is true after the body has failed with a `LimitExceeded`.
        exceeded: bool,
    }
}

impl<B> TimeoutBody<B> {
    /// Creates a body whose reader waits at most `timeout` for each frame.
    ///
    /// # Examples
    ///
    /// ```
    /// use http_body_util::BodyExt as _;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::TimeoutBody;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let body = TimeoutBody::new(Duration::from_secs(10), "a body".to_owned());
    /// assert_eq!(body.collect().await.unwrap().to_bytes(), "a body");
    /// # }
    /// ```
    pub const fn new(timeout: Duration, body: B) -> Self {
        Self::with_limits(BodyLimits::new().frame_timeout(timeout), body)
    }

    /// Creates a body with `limits`.
    ///
    /// # Examples
    ///
    /// ```
    /// use http_body_util::BodyExt as _;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::{BodyLimits, TimeoutBody};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
    /// let body = TimeoutBody::with_limits(limits, "a body".to_owned());
    /// assert_eq!(body.collect().await.unwrap().to_bytes(), "a body");
    /// # }
    /// ```
    pub const fn with_limits(limits: BodyLimits, body: B) -> Self {
        Self::on(limits, body, None)
    }

    /// Creates a body with `limits`. The body uses `timer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use http_body_util::BodyExt as _;
    /// use tokio_wheel::{Duration, Timer};
    /// use tokio_wheel_util::http::{BodyLimits, TimeoutBody};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
    /// let body = TimeoutBody::with_timer(limits, "a body".to_owned(), &timer);
    /// assert_eq!(body.collect().await.unwrap().to_bytes(), "a body");
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_timer(limits: BodyLimits, body: B, timer: &Timer) -> Self {
        Self::on(limits, body, Some(timer.clone()))
    }

    /// Creates a body that uses `timer`. `None` stands for the default timer.
    pub(super) const fn on(limits: BodyLimits, body: B, timer: Option<Timer>) -> Self {
        Self {
            body,
            wait: Wait::new(limits, timer),
            exceeded: false,
        }
    }
}

impl<B: Default> Default for TimeoutBody<B> {
    fn default() -> Self {
        Self::with_limits(BodyLimits::new(), B::default())
    }
}

impl<B> Body for TimeoutBody<B>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = B::Data;
    type Error = Box<dyn Error + Send + Sync>;

    #[track_caller]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut this = self.project();
        if *this.exceeded {
            return Poll::Ready(None);
        }
        let poll = |cx: &mut Context<'_>| this.body.as_mut().poll_frame(cx);
        let frame = match ready!(this.wait.poll(cx, poll)) {
            Ok(frame) => frame.map(|frame| frame.map_err(Into::into)),
            Err(limit) => {
                *this.exceeded = true;
                Some(Err(limit.into()))
            }
        };
        if !matches!(frame, Some(Ok(_))) {
            this.wait.end();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.exceeded || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.exceeded {
            true => SizeHint::with_exact(0),
            false => self.body.size_hint(),
        }
    }
}

/// The error of a body that has exceeded a limit.
///
/// [`TimeoutBody`] fails with this error, in a box. hyper, axum and other crates put the
/// box into their own errors. [`find`](Self::find) finds the `LimitExceeded` inside such an error.
///
/// # Examples
///
/// This handler responds with 408 if the client sends its body too slowly. Without such a handler, axum
/// responds with 400:
///
/// ```
/// use axum::{
///     body::{Body, Bytes}, extract::rejection::BytesRejection, http::{Request, StatusCode},
///     response::{IntoResponse as _, Response}, routing::post, Router,
/// };
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::http::{LimitExceeded, RequestBodyTimeoutLayer};
/// # use tower::ServiceExt as _;
///
/// async fn upload(body: Result<Bytes, BytesRejection>) -> Result<StatusCode, Response> {
///     let body = body.map_err(|rejection| match LimitExceeded::find(&rejection) {
///         Some(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
///         None => rejection.into_response(),
///     })?;
///     Ok(StatusCode::CREATED)
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let limit = RequestBodyTimeoutLayer::new(Duration::from_secs(10));
/// let app = Router::new().route("/", post(upload)).layer(limit);
///
/// let never = Body::from_stream(tokio_stream::pending::<Result<Bytes, std::io::Error>>());
/// let answer = app.oneshot(Request::post("/").body(never).unwrap()).await.unwrap();
/// assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitExceeded {
    /// A wait for a frame has reached the limit [`frame_timeout`](super::BodyLimits::frame_timeout).
    Frame(Duration),
    /// The sum of all waits has reached the limit [`body_timeout`](super::BodyLimits::body_timeout).
    Body(Duration),
}

impl LimitExceeded {
    /// Returns the `LimitExceeded` that an error contains. Returns `None` if the error contains no
    /// `LimitExceeded`.
    ///
    /// The method checks the error and then all its causes. It finds a cause with [`source`](Error::source).
    /// For an [`io::Error`], it uses [`get_ref`](io::Error::get_ref), because `source` skips the error inside
    /// an `io::Error`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{io, time::Duration};
    /// use tokio_wheel_util::http::LimitExceeded;
    ///
    /// let exceeded = LimitExceeded::Frame(Duration::from_secs(10));
    /// let error = axum::Error::new(io::Error::other(exceeded));
    /// assert_eq!(LimitExceeded::find(&error), Some(exceeded));
    /// assert_eq!(LimitExceeded::find(&io::Error::other("another")), None);
    /// ```
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(found) = error.downcast_ref() {
            return Some(*found);
        }
        match error.downcast_ref().and_then(io::Error::get_ref) {
            Some(wrapped) => Self::find(wrapped),
            None => Self::find(error.source()?),
        }
    }
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(limit) => write!(f, "no frame of the body came within {limit:?}"),
            Self::Body(limit) => write!(f, "the body did not come within {limit:?}"),
        }
    }
}

impl Error for LimitExceeded {}

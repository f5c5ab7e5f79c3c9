//! The limits of a body, and the error of a body that has exceeded one.

use std::{error::Error, fmt, time::Duration};

use crate::limit::{find, setters};

/// The limits of a [`TimeoutBody`](super::TimeoutBody).
///
/// The [module](super#what-the-limits-of-a-body-measure) explains what each limit measures.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::http::{BodyLimits, RequestBodyTimeoutLayer};
///
/// const LIMITS: BodyLimits = BodyLimits::new()
///     .frame_timeout(Duration::from_secs(10))
///     .body_timeout(Duration::from_secs(60));
/// let layer = RequestBodyTimeoutLayer::with_limits(LIMITS);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "limits do nothing until a layer or a body gets them"]
pub struct BodyLimits {
    // `None` means no limit.
    pub(super) frame_timeout: Option<Duration>,
    pub(super) body_timeout: Option<Duration>,
}

impl BodyLimits {
    /// Creates `BodyLimits` without any limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::http::BodyLimits;
    ///
    /// assert_eq!(BodyLimits::new(), BodyLimits::default());
    /// assert_ne!(BodyLimits::new(), BodyLimits::new().frame_timeout(Duration::MAX));
    /// ```
    pub const fn new() -> Self {
        Self {
            frame_timeout: None,
            body_timeout: None,
        }
    }

    setters! {
        /// Limits how long a reader may wait for each frame.
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::http::BodyLimits;
        ///
        /// let limits = BodyLimits::new().frame_timeout(Duration::from_secs(10));
        /// assert!(format!("{limits:?}").contains("frame_timeout: Some(10s)"));
        /// ```
        frame_timeout: Duration;

        /// Limits how long a reader may wait for all frames together.
        ///
        /// # Examples
        ///
        /// ```
        /// use tokio_wheel::Duration;
        /// use tokio_wheel_util::http::BodyLimits;
        ///
        /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
        /// assert!(format!("{limits:?}").contains("body_timeout: Some(60s)"));
        /// ```
        body_timeout: Duration;
    }
}

/// The error of a body that has exceeded a limit.
///
/// [`TimeoutBody`](super::TimeoutBody) fails with this error, in a box. hyper, axum and other crates put the
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
    /// Waiting for a frame took longer than [`frame_timeout`](super::BodyLimits::frame_timeout).
    Frame(Duration),
    /// Waiting for all frames together took longer than [`body_timeout`](super::BodyLimits::body_timeout).
    Body(Duration),
}

impl LimitExceeded {
    /// Returns the `LimitExceeded` that an error contains, if any.
    ///
    /// The method checks the error and then all its causes. It finds a cause with [`source`](Error::source).
    /// For an [`io::Error`](std::io::Error), it uses [`get_ref`](std::io::Error::get_ref), because `source` skips the error inside
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
        find(error).copied()
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

//! The limit that a body has exceeded, and how to find it in another error.

use std::{error::Error, fmt, io, time::Duration};

/// The limit that a body has exceeded, with its value.
///
/// [`TimeoutBody`](super::TimeoutBody) fails with this error, in a box. hyper, axum and other crates put
/// the box into errors of their own. [`find`](Self::find) finds it there.
///
/// # Examples
///
/// A handler answers 408 if the client was too slow to send its body, not 400 as axum does by itself:
///
/// ```
/// use axum::{
///     body::{Body, Bytes}, extract::rejection::BytesRejection, http::{Request, StatusCode},
///     response::{IntoResponse as _, Response}, routing::post, Router,
/// };
/// use tokio_wheel::{http::{LimitExceeded, RequestBodyTimeoutLayer}, Duration};
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
    /// One frame took as long as the limit between frames.
    Frame(Duration),
    /// All frames together took as long as the limit of the whole body.
    Body(Duration),
}

impl LimitExceeded {
    /// Finds the limit that was exceeded in an error, or in the errors that caused it.
    ///
    /// It looks at the [`source`](Error::source) of each error, and into each [`io::Error`], whose `source` skips
    /// the error that it was made of.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{io, time::Duration};
    /// use tokio_wheel::http::LimitExceeded;
    ///
    /// let exceeded = LimitExceeded::Frame(Duration::from_secs(10));
    /// let error = axum::Error::new(io::Error::other(exceeded));
    /// assert_eq!(LimitExceeded::find(&error), Some(exceeded));
    /// assert_eq!(LimitExceeded::find(&io::Error::other("another")), None);
    /// ```
    #[must_use]
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(*found);
            }
            let wrapped = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            next = match wrapped {
                Some(wrapped) => Some(wrapped),
                None => error.source(),
            };
        }
        None
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

impl From<LimitExceeded> for io::Error {
    fn from(exceeded: LimitExceeded) -> Self {
        Self::new(io::ErrorKind::TimedOut, exceeded)
    }
}

//! A body whose frames must come in time.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{limits::BodyLimits, waits::Waits};
use crate::{ground::coop, timer::Timer};

pin_project! {
    /// A body that fails when it makes its reader wait for too long.
    ///
    /// [The module](super#what-the-limits-of-a-body-count) says what the limits count.
    ///
    /// The size hint, the data and the trailers are the inner body's. A frame that is ready counts, however
    /// late it is polled. [`Default`] creates a body without limits around the inner body's default.
    ///
    /// # Cancel safety
    ///
    /// A caller may stop waiting for a frame and begin again later. No frame is lost, and the wait goes on.
    ///
    /// # Panics
    ///
    /// A poll panics as the future of [`sleep`](crate::sleep()) does, if the inner body is pending.
    ///
    /// # Errors
    ///
    /// The body fails with a [`LimitExceeded`](super::LimitExceeded) in a box, or with the inner body's error. It
    /// ends after it has exceeded a limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use http_body_util::{BodyExt as _, StreamBody};
    /// use hyper::body::{Bytes, Frame};
    /// use tokio_stream::StreamExt as _;
    /// use tokio_wheel::http::{BodyLimits, LimitExceeded, TimeoutBody};
    /// use tokio_wheel::{sleep, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// // A frame every five seconds, without end.
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
    pub struct TimeoutBody<B> {
        #[pin]
        body: B,
        waits: Waits,
        exceeded: bool,
    }
}

impl<B> TimeoutBody<B> {
    /// Limits how long each frame may take.
    ///
    /// # Examples
    ///
    /// ```
    /// use http_body_util::BodyExt as _;
    /// use tokio_wheel::{http::TimeoutBody, Duration};
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

    /// Sets any limits.
    ///
    /// # Examples
    ///
    /// ```
    /// use http_body_util::BodyExt as _;
    /// use tokio_wheel::{http::{BodyLimits, TimeoutBody}, Duration};
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

    /// Sets any limits, by a certain timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use http_body_util::BodyExt as _;
    /// use tokio_wheel::{http::{BodyLimits, TimeoutBody}, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limits = BodyLimits::new().body_timeout(Duration::from_secs(60));
    /// let body = TimeoutBody::with_timer(limits, "a body".to_owned(), Timer::current());
    /// assert_eq!(body.collect().await.unwrap().to_bytes(), "a body");
    /// # }
    /// ```
    pub fn with_timer(limits: BodyLimits, body: B, timer: &Timer) -> Self {
        Self::on(limits, body, Some(timer.clone()))
    }

    pub(super) const fn on(limits: BodyLimits, body: B, timer: Option<Timer>) -> Self {
        Self {
            body,
            waits: Waits::new(limits, timer),
            exceeded: false,
        }
    }

    /// Returns the inner body.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{http::TimeoutBody, Duration};
    ///
    /// let body = TimeoutBody::new(Duration::from_secs(10), "a body");
    /// assert_eq!(*body.get_ref(), "a body");
    /// ```
    pub fn get_ref(&self) -> &B {
        &self.body
    }

    /// Returns the inner body, mutably.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{http::TimeoutBody, Duration};
    ///
    /// let mut body = TimeoutBody::new(Duration::from_secs(10), "a body");
    /// *body.get_mut() = "another";
    /// assert_eq!(body.into_inner(), "another");
    /// ```
    pub fn get_mut(&mut self) -> &mut B {
        &mut self.body
    }

    /// Gives up the limits and returns the inner body.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{http::TimeoutBody, Duration};
    ///
    /// let body = TimeoutBody::new(Duration::from_secs(10), "a body");
    /// assert_eq!(body.into_inner(), "a body");
    /// ```
    pub fn into_inner(self) -> B {
        self.body
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
        let this = self.project();
        if *this.exceeded {
            return Poll::Ready(None);
        }
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            this.waits.end_wait();
            if !matches!(frame, Some(Ok(_))) {
                this.waits.end();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let exceeded = ready!(this.waits.poll(had_budget, cx));
        this.waits.end();
        *this.exceeded = true;
        Poll::Ready(Some(Err(exceeded.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.exceeded || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! A body whose frames must arrive in time.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio_wheel::Timer;

use super::{body_limits::BodyLimits, wait::Wait};

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

    /// Creates a body with `limits`, on `timer`.
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

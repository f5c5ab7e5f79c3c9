//! A body whose frames must arrive in time.
//!
//! A wait begins when a poll returns no frame, and ends when a poll returns one. The limits measure only waits
//! (`http::body::a_slow_reader_is_no_slow_body`).
//!
//! The first wait registers an entry in the timer, and each later wait moves its deadline. The entry stays registered
//! between waits, until the body ends (`http::body::a_body_has_one_entry_that_each_wait_moves`).

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tokio_wheel::{Sleep, sleep_until};

use super::body_limits::{BodyLimits, LimitExceeded};
use crate::limit::{Starved, saturating_add};

pin_project! {
    /// A body that fails if its reader waits too long.
    ///
    /// The [module](super#what-the-limits-of-a-body-measure) explains what the limits measure. The frames,
    /// the trailers and the size hint of the inner body stay unchanged. [`Default`] wraps the default of the
    /// inner body and sets no limit.
    ///
    /// # Cancel safety
    ///
    /// A caller may stop waiting for a frame and poll again later. No frame is lost, and the wait continues.
    ///
    /// # Panics
    ///
    /// If the inner body is pending and a limit is set, a poll panics in the cases that [`sleep`](tokio_wheel::sleep())
    /// lists.
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
        limits: BodyLimits,
        // Ends when the wait reaches its limit. `None` before the first wait and after the end of the body.
        sleep: Option<Sleep>,
        // The start of the wait. `None` between waits.
        began: Option<Instant>,
        // The time of all finished waits. It is measured only if the whole body has a limit.
        spent: Duration,
        starved: Starved,
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
        Self {
            body,
            limits,
            sleep: None,
            began: None,
            spent: Duration::ZERO,
            starved: Starved::new(),
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
        let this = self.project();
        if *this.exceeded {
            return Poll::Ready(None);
        }
        let limits = &*this.limits;
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            if let (Some(began), Some(_)) = (this.began.take(), limits.body_timeout) {
                *this.spent = this.spent.saturating_add(began.elapsed());
            }
            if !matches!(frame, Some(Ok(_))) {
                *this.sleep = None;
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let frame = (limits.frame_timeout).map(|limit| (limit, LimitExceeded::Frame(limit)));
        let body = (limits.body_timeout).map(|limit| {
            (
                limit.saturating_sub(*this.spent),
                LimitExceeded::Body(limit),
            )
        });
        let shorter = frame.into_iter().chain(body).min_by_key(|(left, _)| *left);
        let Some((left, exceeded)) = shorter else {
            return Poll::Pending;
        };
        let deadline = saturating_add(*this.began.get_or_insert_with(Instant::now), left);
        let sleep = this.sleep.get_or_insert_with(|| sleep_until(deadline));
        if sleep.deadline() != deadline {
            Pin::new(&mut *sleep).reset(deadline);
        }
        ready!(this.starved.poll_limit(sleep, cx));
        (*this.sleep, *this.exceeded) = (None, true);
        Poll::Ready(Some(Err(exceeded.into())))
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

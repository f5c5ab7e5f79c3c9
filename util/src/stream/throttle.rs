//! `Throttle`: a minimum time between items.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use pin_project_lite::pin_project;

use tokio_wheel::{Sleep, Timer};

pin_project! {
    /// The stream returned by [`StreamExt::throttle`](super::StreamExt::throttle).
    ///
    /// # Cancel safety
    ///
    /// The stream is cancel safe if the inner stream is cancel safe.
    ///
    /// # Panics
    ///
    /// During a pause, a poll panics in the cases that [`sleep`](tokio_wheel::sleep()) lists.
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        pause: Sleep,
        duration: Duration,
        // Whether the stream is in the pause after an item.
        pausing: bool,
    }
}

impl<S> Throttle<S> {
    /// Creates the stream of [`StreamExt::throttle`](super::StreamExt::throttle), on `timer`.
    ///
    /// Apart from the timer, this function does what [`StreamExt::throttle`](super::StreamExt::throttle)
    /// does.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::iter;
    /// use tokio_wheel::{Duration, Timer};
    /// use tokio_wheel_util::stream::Throttle;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let stream = Throttle::with_timer(iter([1, 2]), Duration::from_secs(1), &timer);
    /// let items: Vec<_> = tokio_stream::StreamExt::collect(stream).await;
    /// assert_eq!(items, [1, 2]);
    /// assert_eq!(timer.metrics().fired(), 2);
    /// # }
    /// ```
    pub fn with_timer(stream: S, duration: Duration, timer: &Timer) -> Self {
        Self::new(stream, duration, timer.sleep(duration))
    }

    pub(super) fn new(stream: S, duration: Duration, pause: Sleep) -> Self {
        Self {
            stream,
            pause,
            duration,
            pausing: false,
        }
    }

    /// Returns a reference to the inner stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::{Stream, iter};
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::stream::StreamExt;
    ///
    /// let stream = iter([1, 2]).throttle(Duration::from_secs(1));
    /// assert_eq!(stream.get_ref().size_hint(), (2, Some(2)));
    /// ```
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns a mutable reference to the inner stream.
    ///
    /// An item that you take from the inner stream does not start a pause.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::iter;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::stream::StreamExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut stream = iter([1, 2]).throttle(Duration::from_secs(1));
    /// *stream.get_mut() = iter([3, 4]);
    /// assert_eq!(tokio_stream::StreamExt::next(&mut stream).await, Some(3));
    /// # }
    /// ```
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns the inner stream and drops the adapter.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_stream::iter;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::stream::StreamExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut stream = iter([1, 2]).throttle(Duration::from_secs(1));
    /// assert_eq!(tokio_stream::StreamExt::next(&mut stream).await, Some(1));
    /// let mut rest = stream.into_inner();
    /// assert_eq!(tokio_stream::StreamExt::next(&mut rest).await, Some(2));
    /// # }
    /// ```
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    #[track_caller]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        if *this.pausing {
            ready!(Pin::new(&mut *this.pause).poll(cx));
            *this.pausing = false;
        }
        let item = ready!(this.stream.poll_next(cx));
        if item.is_some() && !this.duration.is_zero() {
            Pin::new(this.pause).reset_after(*this.duration);
            *this.pausing = true;
        }
        Poll::Ready(item)
    }
}

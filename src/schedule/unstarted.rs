//! A scheduled task that its timer's shutdown gave back.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::time::Instant;

/// A scheduled task that was waiting when its timer was shut down, given back by
/// [`Timer::shutdown`](crate::Timer::shutdown).
///
/// It is a future, which runs the task: await it, spawn it, wait for its
/// [`deadline`](Self::deadline) first, or drop it. Of a periodic task it is the next run, and
/// that is the last. What the task puts out is dropped: its
/// [`ScheduledTask`](super::ScheduledTask) has ended already, with an error that
/// [`is_shutdown`](crate::error::TaskError::is_shutdown).
///
/// # Panics
///
/// The future panics if the task does, and when it is polled after it was ready.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc::channel;
/// use tokio_wheel::{sleep_until, Duration, Instant, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::builder().build()?;
/// let (send, receive) = channel();
/// let due = Instant::now() + Duration::from_secs(60);
/// timer.schedule_at(due, async move { send.send("done") })?;
///
/// for task in timer.shutdown() {
///     assert_eq!(task.deadline(), due);
///     sleep_until(task.deadline()).await;
///     task.await;
/// }
/// assert_eq!(receive.recv(), Ok("done"));
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Unstarted {
    deadline: Instant,
    pub(super) future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Unstarted {
    pub(super) fn new(deadline: Instant, future: impl Future + Send + 'static) -> Self {
        Self {
            deadline,
            future: Box::pin(Discarding {
                future: Some(future),
            }),
        }
    }

    /// The instant at which the task would have become due, and may have done so already.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().build()?;
    /// timer.schedule(Duration::from_secs(1), async {})?;
    /// let left = timer.shutdown();
    /// assert_eq!(left[0].deadline(), Instant::now() + Duration::from_secs(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Future for Unstarted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.future.as_mut().poll(cx)
    }
}

impl fmt::Debug for Unstarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unstarted")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

pin_project! {
    /// A future without its output. Written by hand, as an `async` block would hold it twice
    /// (`schedule::memory`).
    struct Discarding<F> {
        // Dropped when it has ended.
        #[pin]
        future: Option<F>,
    }
}

impl<F: Future> Future for Discarding<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut future = self.project().future;
        let Some(polled) = future.as_mut().as_pin_mut() else {
            panic!("an Unstarted was polled after it was ready");
        };
        let output = ready!(polled.poll(cx));
        future.set(None);
        drop(output);
        Poll::Ready(())
    }
}

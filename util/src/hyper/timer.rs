//! A timer that hyper can use.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use ::hyper::rt;
use tokio_wheel::{Sleep, Timer};

use crate::limit::{saturating_add, sleep_until};

/// A timer for hyper. It uses the default timer or a [`Timer`] that you pass.
///
/// Pass a `WheelTimer` wherever hyper or hyper-util takes a [`hyper::rt::Timer`]. It replaces hyper-util's
/// `TokioTimer`. If the timer of another crate created a sleep, `reset` replaces the sleep, while `TokioTimer`
/// does nothing.
///
/// Each sleep is a [`Sleep`] in a box, because the trait requires a box. hyper resets sleeps more often than
/// it creates them. A reset moves the deadline in place, without a new box or a new registration, and the sleep
/// keeps its timer.
///
/// The timer reads the clock of [`tokio::time`]. So it also works with a paused clock.
///
/// # Panics
///
/// A sleep of the default timer panics in the cases that [`sleep`](tokio_wheel::sleep()) lists.
///
/// The method [`sleep`](rt::Timer::sleep) accepts any duration. But hyper adds most of its limits to the
/// current time, and hyper panics if the sum overflows. So set a limit of hyper to `None` instead of
/// [`Duration::MAX`].
///
/// # Examples
///
/// ```
/// use hyper::rt::Timer as _;
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::hyper::WheelTimer;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let timer = WheelTimer::new();
/// let start = timer.now();
/// let mut sleep = timer.sleep(Duration::from_secs(1));
/// timer.reset(&mut sleep, start + Duration::from_secs(5));
/// sleep.await;
/// assert_eq!(timer.now() - start, Duration::from_secs(5));
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct WheelTimer {
    /// `None` stands for the default timer of the runtime that polls the sleep.
    timer: Option<Timer>,
}

impl WheelTimer {
    /// Creates a timer whose sleeps use the default timer of the runtime that polls them.
    ///
    /// # Examples
    ///
    /// ```
    /// use hyper::rt::Timer as _;
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::hyper::WheelTimer;
    ///
    /// let timer = WheelTimer::new();
    /// let start = timer.now();
    /// let sleep = timer.sleep(Duration::from_millis(5)); // You need no runtime here.
    /// tokio_test::block_on(sleep);
    /// assert!(timer.now() - start >= Duration::from_millis(5));
    /// ```
    pub const fn new() -> Self {
        Self { timer: None }
    }

    /// Creates a timer whose sleeps use `timer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use hyper::rt::Timer as _;
    /// use tokio_wheel::{Duration, Timer};
    /// use tokio_wheel_util::hyper::WheelTimer;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// WheelTimer::with_timer(&timer)
    ///     .sleep(Duration::from_secs(1))
    ///     .await;
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_timer(timer: &Timer) -> Self {
        let timer = Some(timer.clone());
        Self { timer }
    }
}

impl rt::Timer for WheelTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until(saturating_add(tokio::time::Instant::now(), duration).into())
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        let timer = self.timer.as_ref();
        Box::pin(WheelSleep(sleep_until(timer, deadline.into())))
    }

    /// Returns the current time of tokio's clock. Tests can pause this clock.
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }

    /// Moves the deadline of `sleep` in place if a `WheelTimer` created `sleep`. Otherwise, the method replaces
    /// `sleep` with a new sleep.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<WheelSleep>() {
            Some(sleep) => Pin::new(&mut sleep.get_mut().0).reset(new_deadline.into()),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

/// A sleep that hyper can use.
struct WheelSleep(Sleep);

impl Future for WheelSleep {
    type Output = ();

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl rt::Sleep for WheelSleep {}

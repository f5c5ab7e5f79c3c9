//! A timer for wherever hyper takes one.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use ::hyper::rt;

use crate::{futures::Sleep, timer::Timer};

/// A [`hyper::rt::Timer`] on the wheel.
///
/// Its sleeps are this crate's [`Sleep`] in a box, since hyper wants one. hyper moves the deadline
/// of a sleep that it has rather than asking for a new one; that is done in place, so it costs
/// neither a box nor a registration.
///
/// The present is that of [`tokio::time`], so a paused clock is obeyed.
///
/// # Panics
///
/// The sleeps panic as the future of [`sleep`](crate::sleep()) does. Any duration is fine for
/// [`sleep`](rt::Timer::sleep) here, but hyper itself adds most of its limits to the present and
/// panics if there is no such instant, whatever the timer: give it `None`, not [`Duration::MAX`],
/// for no limit.
///
/// # Examples
///
/// ```
/// use hyper::rt::Timer as _;
/// use tokio_wheel::{hyper::WheelTimer, Duration};
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
    /// `None`: the ambient timer of whatever runtime polls the sleeps.
    timer: Option<Timer>,
}

impl WheelTimer {
    /// Uses the ambient timer of the runtime that polls the sleeps.
    ///
    /// # Examples
    ///
    /// ```
    /// use hyper::rt::Timer as _;
    /// use tokio_wheel::{hyper::WheelTimer, Duration};
    ///
    /// let timer = WheelTimer::new();
    /// let start = timer.now();
    /// let sleep = timer.sleep(Duration::from_millis(5)); // Outside of a runtime, too.
    /// tokio_test::block_on(sleep);
    /// assert!(timer.now() - start >= Duration::from_millis(5));
    /// ```
    pub const fn new() -> Self {
        Self { timer: None }
    }

    /// Uses a certain timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use hyper::rt::Timer as _;
    /// use tokio_wheel::{hyper::WheelTimer, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().tick(Duration::from_millis(10)).build()?;
    /// WheelTimer::with_timer(timer.clone())
    ///     .sleep(Duration::from_secs(1))
    ///     .await;
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn with_timer(timer: Timer) -> Self {
        Self { timer: Some(timer) }
    }
}

impl rt::Timer for WheelTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Sleep::after(self.timer.as_ref(), duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Sleep::at(self.timer.as_ref(), deadline.into()))
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }

    /// Moves the deadline of a [`Sleep`] in place, so that it stays with the timer that it has.
    /// Any other implementation's sleep is replaced.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) => sleep.reset(new_deadline.into()),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

/// So that hyper can hold it.
impl rt::Sleep for Sleep {}

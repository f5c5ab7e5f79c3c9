//! The functions that both crates have.

use std::{future::Future, pin::Pin, time::Duration};

use tokio_wheel::{Instant, MissedTickBehavior};

pub(crate) trait Time: Send + 'static {
    const NAME: &'static str;

    type Sleep: Future<Output = ()> + Send + Sync + 'static;
    type Interval: Send + Sync + 'static;

    fn sleep(duration: Duration) -> Self::Sleep;
    fn sleep_until(deadline: Instant) -> Self::Sleep;
    fn deadline(sleep: &Self::Sleep) -> Instant;
    fn is_elapsed(sleep: &Self::Sleep) -> bool;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);

    /// Returns the output, or `None` if the timeout has elapsed.
    fn timeout<F>(duration: Duration, future: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future<Output: Send> + Send;
    /// Returns the output, or `None` if the timeout has elapsed.
    fn timeout_at<F>(
        deadline: Instant,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future<Output: Send> + Send;

    fn interval(period: Duration) -> Self::Interval;
    fn interval_at(start: Instant, period: Duration) -> Self::Interval;
    fn set_missed_tick_behavior(interval: &mut Self::Interval, behavior: MissedTickBehavior);
    fn tick(interval: &mut Self::Interval) -> impl Future<Output = Instant> + Send;
    fn reset_interval(interval: &mut Self::Interval);
    fn reset_immediately(interval: &mut Self::Interval);
    fn reset_after(interval: &mut Self::Interval, after: Duration);
    fn reset_at(interval: &mut Self::Interval, deadline: Instant);

    fn advance(duration: Duration) -> impl Future<Output = ()> + Send;
}

macro_rules! impl_time {
    ($name:ident, $($path:ident)::+) => {
        pub(crate) struct $name;

        impl Time for $name {
            const NAME: &'static str = stringify!($($path)::+);

            type Sleep = $($path)::+::Sleep;
            type Interval = $($path)::+::Interval;

            fn sleep(duration: Duration) -> Self::Sleep {
                $($path)::+::sleep(duration)
            }
            fn sleep_until(deadline: Instant) -> Self::Sleep {
                $($path)::+::sleep_until(deadline)
            }
            fn deadline(sleep: &Self::Sleep) -> Instant {
                sleep.deadline()
            }
            fn is_elapsed(sleep: &Self::Sleep) -> bool {
                sleep.is_elapsed()
            }
            fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
                sleep.reset(deadline);
            }

            async fn timeout<F>(duration: Duration, future: F) -> Option<F::Output>
            where
                F: Future<Output: Send> + Send,
            {
                $($path)::+::timeout(duration, future).await.ok()
            }
            async fn timeout_at<F>(deadline: Instant, future: F) -> Option<F::Output>
            where
                F: Future<Output: Send> + Send,
            {
                $($path)::+::timeout_at(deadline, future).await.ok()
            }

            fn interval(period: Duration) -> Self::Interval {
                $($path)::+::interval(period)
            }
            fn interval_at(start: Instant, period: Duration) -> Self::Interval {
                $($path)::+::interval_at(start, period)
            }
            fn set_missed_tick_behavior(
                interval: &mut Self::Interval,
                behavior: MissedTickBehavior,
            ) {
                interval.set_missed_tick_behavior(behavior);
            }
            async fn tick(interval: &mut Self::Interval) -> Instant {
                interval.tick().await
            }
            fn reset_interval(interval: &mut Self::Interval) {
                interval.reset();
            }
            fn reset_immediately(interval: &mut Self::Interval) {
                interval.reset_immediately();
            }
            fn reset_after(interval: &mut Self::Interval, after: Duration) {
                interval.reset_after(after);
            }
            fn reset_at(interval: &mut Self::Interval, deadline: Instant) {
                interval.reset_at(deadline);
            }

            async fn advance(duration: Duration) {
                $($path)::+::advance(duration).await;
            }
        }
    };
}

impl_time!(Theirs, tokio::time);
impl_time!(Ours, tokio_wheel);

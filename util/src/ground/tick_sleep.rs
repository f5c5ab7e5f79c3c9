//! `TickSleep`: a clock, and a `Sleep` until a tick of the clock.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bounded_wheel::Tick;
use tokio::time::Instant;
use tokio_wheel::{Duration, Sleep, Timer};

use super::clock::Clock;
use crate::limit::sleep_until;

/// The tick of a service that uses the default timer. With that timer's own tick, each entry would cascade once more.
const TICK: Duration = Duration::from_millis(1);

/// The tick of a service that uses a timer with a coarser tick. The timer rounds each wait up to its own tick, which begins
/// at another instant. So if the service also rounded to this tick, entries would be up to two ticks late.
const FINE: Duration = Duration::from_nanos(1_000_000 / 64);

/// Waits for one tick of its clock at a time.
pub(crate) struct TickSleep {
    pub(crate) clock: Clock,
    sleep: Sleep,
}

impl TickSleep {
    /// Creates a sleep on `timer`. If `timer` is `None`, the sleep uses the default timer of the runtime that polls it.
    pub(crate) fn of(timer: Option<&Timer>) -> Self {
        Self {
            clock: Clock::new(timer.map_or(TICK, |timer| timer.tick().min(FINE))),
            sleep: sleep_until(timer, Instant::now()),
        }
    }

    /// Polls whether the clock of the timer's runtime has reached `tick`.
    ///
    /// Returns pending for a tick that the clock cannot express. This method may return ready before
    /// [`clock`](Self::clock) reaches the tick, because a paused runtime has its own clock.
    ///
    /// If the default timer has shut down, this method registers with the default timer of the runtime that
    /// polls the sleep now.
    #[track_caller]
    pub(crate) fn poll(&mut self, tick: Tick, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.clock.instant(tick) else {
            return Poll::Pending;
        };
        if self.sleep.deadline() != deadline {
            Pin::new(&mut self.sleep).reset(deadline);
        }
        self.sleep.poll_elapsed(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, task::Waker};

    use bounded_wheel::NEVER;

    use super::*;

    fn is_ready(sleep: &mut TickSleep, tick: Tick) -> bool {
        sleep
            .poll(tick, &mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_ready_at_the_tick_that_it_was_last_set_to() {
        for tick in [1, 5].map(Duration::from_millis) {
            let timer = Timer::builder().tick(tick).build().unwrap();
            let mut sleep = TickSleep::of((tick != TICK).then_some(&timer));
            let now = sleep.clock.now();
            let ticks_of_the_clock = (tick.as_nanos() as u64) / sleep.clock.tick;
            for ticks in [7, 9, 2] {
                let start = Instant::now();
                let until = sleep.clock.now() + ticks * ticks_of_the_clock;
                assert!(!is_ready(&mut sleep, until + 1));
                assert!(!is_ready(&mut sleep, until - 1));
                poll_fn(|cx| sleep.poll(until, cx)).await;
                assert_eq!(start.elapsed(), tick * ticks as u32);
                assert_eq!(sleep.clock.now(), until);
            }
            assert!(is_ready(&mut sleep, now), "the past");
        }
    }

    /// The clock begins in the middle of one of the timer's ticks, and deadlines are a little before others.
    #[tokio::test(start_paused = true)]
    async fn it_is_ready_when_a_sleep_of_its_timer_is() {
        for tick in [10, 100, 1_000].map(Duration::from_millis) {
            let timer = Timer::builder().tick(tick).build().unwrap();
            let [half, part] = [500, 300].map(Duration::from_micros);
            tokio::time::advance(tick * 3 / 10 + half).await;
            let mut sleep = TickSleep::of(Some(&timer));
            for tenths in 1..40 {
                let deadline = Instant::now() + tick * tenths / 10 + part;
                let until = sleep.clock.deadline(deadline);
                let (ours, of_timer) = tokio::join!(
                    async {
                        poll_fn(|cx| sleep.poll(until, cx)).await;
                        Instant::now()
                    },
                    async {
                        timer.sleep_until(deadline).await;
                        Instant::now()
                    },
                );
                assert_eq!(ours, of_timer, "{tick:?}, {tenths}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_registered_for_a_tick_that_never_comes() {
        let mut sleep = TickSleep::of(None);
        assert!(!is_ready(&mut sleep, NEVER));
        assert_eq!(Timer::current().metrics().registered(), 0);
        let next = sleep.clock.now() + 1;
        poll_fn(|cx| sleep.poll(next, cx)).await;
        assert!(!is_ready(&mut sleep, NEVER));
    }

    /// A service may outlive the runtime that polls it.
    #[test]
    fn it_goes_from_one_runtimes_timer_to_the_next() {
        let mut sleep = TickSleep::of(None);
        for ticks in 1..4 {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                let far = sleep.clock.now() + 1_000_000;
                assert!(!is_ready(&mut sleep, far));
                let near = sleep.clock.now() + ticks;
                poll_fn(|cx| sleep.poll(near, cx)).await;
                assert!(!is_ready(&mut sleep, far));
            });
        }
    }
}

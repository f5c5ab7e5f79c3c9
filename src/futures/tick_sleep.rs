//! `TickSleep`: a clock, and a `Sleep` until a tick of the clock. Each service with its own wheel uses a
//! `TickSleep`.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use bounded_wheel::Tick;
use tokio::time::Instant;

use super::Sleep;
use crate::{driver::clock::Clock, timer::Timer};

/// The tick of a service that uses the default timer. The default timer has a tick of 1/64 ms. If the service
/// used a tick of 1/64 ms, each of its entries would cascade one more time.
const TICK: Duration = Duration::from_millis(1);

/// Waits for one tick of its clock at a time.
pub(crate) struct TickSleep {
    pub(crate) clock: Clock,
    sleep: Sleep,
}

impl TickSleep {
    /// Creates a sleep on `timer`. Its clock has the tick of `timer`.
    ///
    /// If `timer` is `None`, the sleep uses the default timer of the runtime that polls it. The tick is then
    /// 1 ms.
    pub(crate) fn of(timer: Option<&Timer>) -> Self {
        let clock = match timer {
            Some(timer) => timer.shared().clock,
            None => Clock::new(TICK),
        };
        let sleep = Sleep::new(timer.map(|timer| timer.registrar().clone()), Instant::now());
        Self { clock, sleep }
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
            self.sleep.reset_deadline(deadline);
        }
        self.sleep.poll_elapsed(cx)
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
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
        for named in [false, true] {
            let tick = Duration::from_millis(if named { 5 } else { 1 });
            let timer = Timer::builder().tick(tick).build().unwrap();
            let mut sleep = TickSleep::of(named.then_some(&timer));
            let now = sleep.clock.now();
            for ticks in [7, 9, 2] {
                let start = Instant::now();
                let until = sleep.clock.now() + ticks;
                assert!(!is_ready(&mut sleep, until + 1));
                assert!(!is_ready(&mut sleep, until - 1));
                poll_fn(|cx| sleep.poll(until, cx)).await;
                assert_eq!(start.elapsed(), tick * ticks as u32);
                assert_eq!(sleep.clock.now(), until);
            }
            assert!(is_ready(&mut sleep, now), "the past");
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

//! Schedules tasks. The methods of `Timer` and the free functions share this code.

use std::{future::Future, time::Duration};

use tokio::time::Instant;

use super::{
    ScheduledTask,
    entry::Entry,
    work::{Once, Pace, Periodic, RunOutput, Work},
};
use crate::{
    driver::{clock, shard::Refused},
    error::{Reason, ScheduleError},
    timer::{Timer, ambient},
};

/// The panic message of a free function that is called outside of a runtime.
const OUTSIDE: &str = "a task was scheduled on the default timer outside of a tokio runtime";

/// The timer on which a task is scheduled.
#[derive(Clone, Copy)]
pub(super) enum On<'a> {
    Timer(&'a Timer),
    /// The default timer of the current runtime.
    Default,
}

impl On<'_> {
    /// Schedules `future` to run once, after `delay`.
    #[track_caller]
    pub(super) fn once_after<F>(
        self,
        delay: Duration,
        future: F,
    ) -> Result<ScheduledTask<F::Output>, ScheduleError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let now = Instant::now();
        let deadline = clock::saturating_add(now, delay);
        self.start(now, deadline, Once(future), |once| once.0)
    }

    /// Schedules `future` to run once, at `deadline`.
    #[track_caller]
    pub(super) fn once_at<F>(
        self,
        deadline: Instant,
        future: F,
    ) -> Result<ScheduledTask<F::Output>, ScheduleError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.start(Instant::now(), deadline, Once(future), |once| once.0)
    }

    /// Schedules a periodic task. Its first run starts after `initial`.
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero.
    #[track_caller]
    pub(super) fn periodic<C, F>(
        self,
        initial: Duration,
        period: Duration,
        make: C,
        pace: Pace,
    ) -> Result<ScheduledTask<<F::Output as RunOutput>::Output>, ScheduleError<C>>
    where
        C: FnMut() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: RunOutput,
    {
        let name = match pace {
            Pace::FixedRate(_) => "period",
            Pace::FixedDelay => "delay",
        };
        assert!(!period.is_zero(), "`{name}` must be non-zero.");
        let now = Instant::now();
        let first = clock::saturating_add(now, initial);
        let work = Periodic { make, period, pace };
        self.start(now, first, work, |work| work.make)
    }

    /// Schedules `work` for `deadline`. `now` is the current time.
    ///
    /// `given` converts the work back to the future or closure of the caller. If the timer refuses the work,
    /// the error holds this future or closure.
    #[track_caller]
    fn start<W: Work, F>(
        self,
        now: Instant,
        deadline: Instant,
        mut work: W,
        given: impl FnOnce(W) -> F,
    ) -> Result<ScheduledTask<W::Output>, ScheduleError<F>> {
        let mut registrar = match self {
            Self::Timer(timer) => timer.registrar(),
            Self::Default => ambient::registrar_of_current_or(OUTSIDE),
        };
        let mut latest = false;
        loop {
            // A shutdown closes one shard after the other. A caller that knows of the shutdown must not
            // schedule on a shard that is still open. So this code first checks whether the timer has ended.
            let scheduled = if registrar.shared.ending.get().is_some() {
                Err((work, registrar, Refused::Closed))
            } else {
                Entry::schedule(registrar, now, deadline, work)
            };
            let refused;
            (work, registrar, refused) = match scheduled {
                Ok(entry) => return Ok(ScheduledTask::new(entry)),
                Err(returned) => returned,
            };
            let reason = match refused {
                Refused::Full { max } => Reason::Full { max },
                // The thread may remember a default timer that has shut down. This code then looks up the
                // next default timer. That timer may also shut down at any time.
                _ if registrar.may_be_replaced(latest) => {
                    registrar = ambient::look_up_or(OUTSIDE);
                    latest = true;
                    continue;
                }
                _ => Reason::Shutdown,
            };
            return Err(ScheduleError::new(given(work), reason));
        }
    }
}

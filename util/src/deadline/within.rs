//! The future that has a limit.

use std::{
    future::Future,
    panic::Location,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::{
    task::{
        self, Id,
        coop::{RestoreOnPending, poll_proceed},
    },
    time::Instant,
};
use tokio_wheel::{Sleep, sleep_until};

use super::{
    Exceeded,
    scope::{self, Deadline, Entered},
};
use crate::limit::{Starved, saturating_add};
#[cfg(feature = "http")]
use tokio_wheel::sleep;

pin_project! {
    /// The future that [`within`](super::within()), [`until`](super::until) and [`inherit`](super::inherit) return.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the inner future and deregisters the limit.
    ///
    /// # Panics
    ///
    /// If the inner future is pending and no outer limit ends first, the future panics in the cases that
    /// [`sleep`](tokio_wheel::sleep()) lists.
    ///
    /// # Errors
    ///
    /// The output is [`Exceeded`] if the future was not ready within this limit, or is polled in a scope that has ended.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    #[project = Projected]
    pub struct Within<F> {
        #[pin]
        future: F,
        phase: Phase,
        // Has the deadline, once it is known.
        sleep: Option<Sleep>,
        limit: Duration,
        name: Option<&'static str>,
        set_at: &'static Location<'static>,
        is_outer: bool,
        // Whether a future outside of this scope was pending at the last poll.
        must_go_on: bool,
        starved: Starved,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no limit.
    Unlimited,
    /// The future was not polled yet. The limit starts with its first poll, which comes before the registration.
    New,
    /// The future was not polled yet, and has a deadline already.
    Known,
    /// An outer limit that is as short or shorter ends first. The deadline is the latest possible.
    Covered,
    /// An outer limit ends first.
    Passed,
    /// The limit has an entry in the timer, and ends first.
    Timed,
}

impl<F> Within<F> {
    /// Limits a future from its first poll on.
    #[inline]
    pub(super) const fn new(
        limit: Duration,
        set_at: &'static Location<'static>,
        future: F,
    ) -> Self {
        Self {
            future,
            phase: Phase::New,
            sleep: None,
            limit,
            name: None,
            set_at,
            is_outer: false,
            must_go_on: false,
            starved: Starved::new(),
        }
    }

    /// Limits a future by a deadline, which is its own or that of a scope.
    #[track_caller]
    pub(super) fn until(deadline: Option<Deadline>, is_outer: bool, future: F) -> Self {
        match deadline {
            Some(it) => Self {
                phase: Phase::Known,
                sleep: Some(sleep_until(it.instant)),
                name: it.name,
                is_outer,
                ..Self::new(it.limit, it.set_at, future)
            },
            None => Self {
                phase: Phase::Unlimited,
                ..Self::new(Duration::MAX, Location::caller(), future)
            },
        }
    }

    /// Limits what `call` returns from now on. The call itself is in the scope, too.
    #[cfg(feature = "http")]
    pub(crate) fn of_call(
        limit: Option<Duration>,
        set_at: &'static Location<'static>,
        call: impl FnOnce() -> F,
    ) -> Self {
        let Some(limit) = limit else {
            return Self::until(None, false, call());
        };
        let name = Some("request");
        let sleep = sleep(limit);
        let instant = sleep.deadline();
        let deadline = Deadline {
            instant,
            limit,
            name,
            set_at,
        };
        let task = task::try_id();
        let is_covered = scope::current(task, |outer, _| outer.instant <= instant) == Some(true);
        let entered = (!is_covered).then(|| Entered::new(task, Some(deadline), false));
        let future = call();
        drop(entered);
        Self {
            name,
            sleep: Some(sleep),
            ..Self::new(limit, set_at, future)
        }
    }

    /// Names the limit, for its error.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::deadline::within;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let never = within(Duration::from_millis(300), std::future::pending::<()>());
    /// let exceeded = never.named("load user").await.unwrap_err();
    /// assert_eq!(exceeded.deadline().name(), Some("load user"));
    /// # }
    /// ```
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }
}

impl<F: Future> Future for Within<F> {
    type Output = Result<F::Output, Exceeded>;

    #[inline]
    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (task, before) = (task::try_id(), *this.phase);
        if this.has_no_time(task) {
            ready!(poll_proceed(cx)).made_progress();
            let outer = Deadline::current().expect("a scope has ended");
            return Poll::Ready(Err(Exceeded::new(outer, true)));
        }
        let (Phase::Timed, Some(sleep)) = (*this.phase, &mut *this.sleep) else {
            return this.future.poll(cx).map(Ok);
        };
        // Where the deadline is needed, it is made anew, because a copy of it would have to wait until it is made.
        let deadline = |sleep: &Sleep| Deadline {
            instant: sleep.deadline(),
            limit: *this.limit,
            name: *this.name,
            set_at: this.set_at,
        };
        // Before its deadline, a pending sleep knows without a lock that it has not elapsed.
        let is_checked = before != Phase::New && (before != Phase::Timed || sleep.is_elapsed());
        let mut has_ended = is_checked && sleep.poll_elapsed(cx).is_ready();
        if !has_ended || *this.must_go_on {
            let entered = Entered::new(task, Some(deadline(sleep)), has_ended);
            if let Poll::Ready(output) = this.future.poll(cx) {
                return Poll::Ready(Ok(output));
            }
            *this.must_go_on = entered.must_go_on();
            drop(entered);
            if !is_checked {
                has_ended = sleep.poll_elapsed(cx).is_ready();
            }
        }
        if !has_ended || *this.must_go_on {
            return Poll::Pending;
        }
        ready!(this.starved.take_unit(cx)).inspect(RestoreOnPending::made_progress);
        Poll::Ready(Err(Exceeded::new(deadline(sleep), *this.is_outer)))
    }
}

impl<F> Projected<'_, F> {
    /// Chooses the phase of a poll, or returns whether the first poll is in a scope that has ended.
    #[inline]
    fn has_no_time(&mut self, task: Option<Id>) -> bool {
        if *self.phase == Phase::Unlimited {
            return false;
        }
        let outer = scope::current(task, |it, has_ended| (it.instant, it.limit, has_ended));
        let end = outer.map(|outer| outer.0);
        let is_first = matches!(*self.phase, Phase::New | Phase::Known);
        if let Some((end, limit, has_ended)) = outer.filter(|_| is_first) {
            if has_ended {
                return true;
            }
            // A limit that starts later and is as long ends later. So most inner limits do not read the clock.
            if self.sleep.is_none() && limit <= *self.limit {
                *self.sleep = Some(sleep_until(saturating_add(end, *self.limit)));
                *self.phase = Phase::Covered;
                return false;
            }
        }
        let sleep = match &mut *self.sleep {
            Some(sleep) => sleep,
            none => {
                let now = Instant::now();
                // The scope may have ended in the middle of its poll.
                if end.is_some_and(|end| end <= now) {
                    return true;
                }
                none.insert(sleep_until(saturating_add(now, *self.limit)))
            }
        };
        let mut covers = end.is_some_and(|end| end <= sleep.deadline());
        if *self.phase == Phase::Covered {
            if covers {
                return false;
            }
            // The future has left the scope. Its limit started at this moment at the latest.
            let latest = saturating_add(Instant::now(), *self.limit);
            if latest < sleep.deadline() {
                *sleep = sleep_until(latest);
                covers = end.is_some_and(|end| end <= latest);
            }
        }
        *self.phase = if covers { Phase::Passed } else { Phase::Timed };
        false
    }
}

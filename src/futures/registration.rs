//! How a `Sleep` registers its entry in a timer, and how its entry leaves.
//!
//! # States
//!
//! ```text
//! +----------+        1        +---------+        2        +-------+
//! |   idle   | --------------> | pending | --------------> | fired |
//! +----------+                 +---------+                 +-------+
//!   |      ^                                                |     |
//!   |      |                       5                        |     | 4
//! 3 |      +------------------------------------------------+     |
//!   |      | 5                                                    |
//!   v      |                                                      |
//! +----------+                                                    |
//! | finished | <--------------------------------------------------+
//! +----------+
//! ```
//!
//! 1. A poll before the deadline registers an entry in a shard.
//! 2. The driver fires the entry at its deadline. [`reset`](Sleep::reset) may also fire the entry if
//!    the new deadline has passed. After a reset to a deadline in the future, a pending sleep stays
//!    pending.
//! 3. A poll after the deadline returns ready.
//! 4. A poll finds that the shard no longer has the entry, and returns ready.
//! 5. [`reset`](Sleep::reset) sets a new deadline.
//!
//! The field `key` shows the state:
//!
//! | state    | `key`                                                  |
//! |----------|--------------------------------------------------------|
//! | idle     | `None`, or [`WAS_RESET`] after a reset                 |
//! | pending  | `Some`: the key of an entry in the shard               |
//! | fired    | `Some`: the key of an entry that the shard has removed |
//! | finished | [`FINISHED`]                                           |
//!
//! `Sleep::is_elapsed` needs to know whether an idle sleep was reset. The next poll of a fired sleep returns ready. Every poll of a finished sleep returns ready.
//!
//! The caller completes transitions 3 and 4 with [`finish`](Sleep::finish). A caller that has no
//! budget left does not call `finish`. The sleep then stays idle or fired, and its next poll returns
//! ready again.
//!
//! When a timer shuts down, its shards drop their entries. The next poll of each pending sleep calls
//! `poll_elsewhere` and, if that returns an error, `poll_ended`. They do one of four things:
//!
//! * It registers with another timer.
//! * It returns ready, because the deadline has passed.
//! * It returns pending until the runtime has shut down.
//! * It panics.
//!
//! A sleep does not store whether it is pending or fired. It locks its shard and asks the shard. The
//! driver therefore keeps no reference to the future. The user may move and drop the future at any time.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use bounded_wheel::Key;
use tokio::{runtime, time::Instant};

use super::sleep::{FINISHED, Sleep, WAS_RESET};
use crate::{
    driver::{ending::Ending, registrar::Registrar},
    error::TimerShutdown,
    timer::default,
};

impl Sleep {
    /// Does what [`reset`](Self::reset) does, without the `Pin`. `reset` takes a `Pin` only because tokio's
    /// method takes a `Pin`.
    #[inline]
    pub(crate) fn reset_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
        let keeps_key = match (self.key, &self.registrar) {
            (Some(key), Some(registrar)) if !key.is_absent() => registrar.reset(key, deadline),
            _ => false,
        };
        if !keeps_key {
            self.key = WAS_RESET;
        }
    }

    /// Polls whether the deadline has passed.
    ///
    /// The caller must call [`finish`](Self::finish) if its own poll returns ready.
    #[inline]
    #[track_caller]
    pub(super) fn poll_reached(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.try_poll_reached(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(TimerShutdown(())) => self.poll_ended(cx),
        }
    }

    /// Polls the entry, and registers it if there is none. Does what [`poll_reached`](Self::poll_reached) does, but returns
    /// an error instead of waiting for the runtime's end or panicking.
    // Without inlining, a timeout takes 22 more instructions (`.ci/instructions`).
    #[inline(always)]
    #[track_caller]
    pub(super) fn try_poll_reached(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TimerShutdown>> {
        let polled = match (self.key, &self.registrar) {
            (Some(key), Some(registrar)) if !key.is_absent() => {
                registrar.shard.poll(key, cx.waker())
            }
            (FINISHED, _) => Poll::Ready(Ok(())),
            _ => self.register(cx),
        };
        match polled {
            Poll::Ready(Err(TimerShutdown(()))) => self.poll_elsewhere(cx),
            polled => polled,
        }
    }

    /// Records that the future has returned ready, so that every poll is ready until the next reset.
    #[inline]
    pub(crate) fn finish(&mut self) {
        self.key = FINISHED;
    }

    /// Registers an entry. Returns an error if the timer has ended, or is another runtime's default timer.
    // All polls share one copy of this function. So each function that it calls to register has one caller, and the compiler
    // inlines them all.
    #[inline(never)]
    #[track_caller]
    fn register(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TimerShutdown>> {
        let registrar = match &self.registrar {
            Some(bound) if !bound.is_default() => match bound.nearer() {
                Some(nearer) => self.registrar.insert(nearer),
                None => bound,
            },
            _ => {
                // A future that registers again has a reference that it can use again.
                if let Some(last) = self.registrar.take() {
                    default::leave(last, None);
                }
                self.registrar.insert(default::registrar())
            }
        };
        match registrar.register(self.deadline, (cx.waker(), self.site)) {
            Ok(key) => {
                self.key = Some(key);
                Poll::Pending
            }
            Err(result) => Poll::Ready(result),
        }
    }

    /// Polls a sleep whose timer has ended, or is another runtime's default timer.
    ///
    /// A sleep of the default timer registers with the default timer of the current runtime: another runtime may poll
    /// the sleep now, the driver may have panicked, or the thread may remember another timer.
    #[cold]
    #[track_caller]
    fn poll_elsewhere(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TimerShutdown>> {
        let is_due = |sleep: &Self| Instant::now() >= sleep.deadline;
        if self.key.is_some_and(|key| !key.is_absent()) && is_due(self) {
            return Poll::Ready(Ok(()));
        }
        let is_default = self.registrar.as_ref().is_some_and(|it| it.is_default());
        if is_default && runtime::Handle::try_current().is_ok() {
            // The key belongs to the ended timer. The next timer may have an entry with an equal key. Test:
            // `a_future_that_has_not_moved_to_the_next_timer_does_not_touch_its_entries`.
            self.key = None;
            let ended = Poll::Ready(Err(TimerShutdown(())));
            let mut polled = self.register(cx);
            // The thread looks the timer up only if the timer that it remembers refuses the sleep, and then only once while
            // the runtime shuts down: each look-up makes another timer, which has ended.
            if polled == ended && !self.ending().is_some_and(|ending| ending.is_awaited()) {
                drop(default::look_up_registrar());
                polled = self.register(cx);
            }
            if polled != ended {
                return polled;
            }
        }
        let result = is_due(self).then_some(()).ok_or(TimerShutdown(()));
        Poll::Ready(result)
    }

    /// Polls a sleep whose timer has ended, which is not due and cannot move to another timer. Panics unless its runtime
    /// is still shutting down.
    #[cold]
    #[track_caller]
    fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        // When a runtime shuts down, its workers drop their tasks in parallel. A worker may still poll this
        // task after another worker has dropped the driver. The runtime then drops this task soon. A worker may
        // also block on a future within `block_in_place`. The runtime does not drop such a future. The future
        // therefore panics when the runtime has dropped its tasks.
        if (self.ending()).is_some_and(|ending| ending.poll_runtime_end(cx).is_pending()) {
            return Poll::Pending;
        }
        // The message has tokio's words for the end of a runtime too, which a program's tests may expect.
        panic!(
            "a future was polled before its deadline and after its timer has shut down: keep the runtime \
             while the future is in use, and poll it only within tasks of that runtime \
             (A Tokio 1.x context was found, but it is being shutdown.)"
        );
    }

    /// Returns the end of the sleep's timer, if the calling thread is a worker of its runtime.
    fn ending(&self) -> Option<&Arc<Ending>> {
        let shared = &self.registrar.as_ref()?.shared;
        shared.agenda.is_worker().then_some(&shared.ending)
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if let Some(registrar) = self.registrar.take() {
            end(registrar, self.key);
        }
    }
}

/// Leaves or deregisters the entry of a dropped sleep, and releases its registrar.
// This function is not inlined. Dropping a future that has no registrar therefore needs only one test.
#[inline(never)]
fn end(registrar: Arc<Registrar>, key: Option<Key>) {
    registrar.shared.agenda.timer_is_used();
    let key = key.filter(|key| !key.is_absent());
    if registrar.is_default() {
        return default::leave(registrar, key);
    }
    drop(key.map(|key| registrar.shard.deregister(key)));
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::time::Duration;

    use tokio_test::{assert_pending, task};

    use super::*;
    use crate::{futures::sleep, timer::Timer};

    #[test]
    fn a_poll_after_the_end_of_the_timer_returns_an_error_before_the_deadline() {
        let runtime = || {
            let mut builder = runtime::Builder::new_current_thread();
            builder.enable_time().build().unwrap()
        };
        let (first, second) = (runtime(), runtime());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let (hour, now) = (Duration::from_secs(3_600), Instant::now());
        let timer = first.block_on(async { Timer::current() });
        let mut pending = timer.sleep(hour);
        let mut default = sleep(hour);
        let entered = first.enter();
        assert!(pending.try_poll_elapsed(&mut cx).is_pending());
        assert!(default.try_poll_elapsed(&mut cx).is_pending());
        drop(entered);
        drop(first);
        let closed = Poll::Ready(Err(TimerShutdown(())));
        for mut sleep in [pending, timer.sleep(hour)] {
            assert_eq!(sleep.try_poll_elapsed(&mut cx), closed);
            assert_eq!(sleep.try_poll_elapsed(&mut cx), closed);
        }
        assert_eq!(
            timer.sleep_until(now).try_poll_elapsed(&mut cx),
            Poll::Ready(Ok(()))
        );
        // A sleep of the default timer moves to the current runtime.
        let _entered = second.enter();
        assert!(default.try_poll_elapsed(&mut cx).is_pending());
    }

    #[test]
    fn sleeps_that_move_share_a_registrar() {
        let runtime = || {
            let mut builder = runtime::Builder::new_multi_thread();
            builder.worker_threads(1).enable_time().build().unwrap()
        };
        let mut sleeps = [(); 3].map(|()| task::spawn(sleep(Duration::from_secs(60))));
        for runtime in [runtime(), runtime()] {
            let _entered = runtime.enter();
            for sleep in &mut sleeps {
                assert_pending!(sleep.poll());
            }
        }
        let registrars = sleeps.each_ref().map(|sleep| sleep.registrar.as_ref());
        let first = registrars[0].unwrap();
        assert!(registrars.iter().flatten().all(|it| Arc::ptr_eq(it, first)));
    }
}

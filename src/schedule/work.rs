//! The work of a scheduled task: a future that runs once, or a closure that makes one future per run.

use std::{convert::Infallible, future::Future, ops::ControlFlow, time::Duration};

use tokio::time::{Instant, MissedTickBehavior};

use crate::{driver::clock, futures::interval::next_tick};

/// The work of a scheduled task while the task waits.
pub(super) trait Work: Send + Sized + 'static {
    /// The output of the task.
    type Output: Send + 'static;

    /// The work of the next run. A task that runs once has no next run, so this type takes no memory
    /// for it.
    type Next: Into<Self>;

    /// Whether another run may follow a run.
    const PERIODIC: bool;

    /// Returns the future of a run whose deadline was `due`.
    fn run(self, due: Instant) -> impl Future<Output: Into<AfterRun<Self>>> + Send;
}

/// The result of a run.
pub(super) enum After<T, N> {
    /// The task has ended.
    End(T),
    /// The task waits for its next run, whose deadline may have passed.
    Again(N, Instant),
}

/// The result of a run of the work `W`.
pub(super) type AfterRun<W> = After<<W as Work>::Output, <W as Work>::Next>;

impl<T, N> From<T> for After<T, N> {
    fn from(output: T) -> Self {
        Self::End(output)
    }
}

/// A future that runs once.
pub(super) struct Once<F>(pub(super) F);

impl<F> Work for Once<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Output = F::Output;
    type Next = Infallible;

    const PERIODIC: bool = false;

    fn run(self, _due: Instant) -> impl Future<Output: Into<AfterRun<Self>>> + Send {
        self.0
    }
}

impl<F> From<Infallible> for Once<F> {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// A closure that returns the future of each run.
pub(super) struct Periodic<C> {
    pub(super) make: C,
    pub(super) period: Duration,
    pub(super) pace: Pace,
}

/// The start of each period of a periodic task.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// The deadline of the last run. The behavior decides if that run started late.
    FixedRate(MissedTickBehavior),
    /// The end of the last run.
    FixedDelay,
}

impl<C, F> Work for Periodic<C>
where
    C: FnMut() -> F + Send + 'static,
    F: Future + Send + 'static,
    F::Output: RunOutput,
{
    type Output = <F::Output as RunOutput>::Output;
    type Next = Self;

    const PERIODIC: bool = true;

    fn run(mut self, due: Instant) -> impl Future<Output: Into<AfterRun<Self>>> + Send {
        async move {
            let started = Instant::now();
            let output = (self.make)().await;
            if let ControlFlow::Break(output) = output.into_control_flow() {
                return After::End(output);
            }
            // The drop of the future may take long, and it is over here.
            let next = match self.pace {
                Pace::FixedRate(behavior) => next_tick(due, started, self.period, behavior),
                Pace::FixedDelay => clock::after(self.period),
            };
            After::Again(self, next)
        }
    }
}

/// The types that a run of a periodic task may return.
///
/// | a run returns | the task |
/// |---|---|
/// | `()` | runs until it is canceled, panics or its timer shuts down |
/// | [`ControlFlow::Continue`] | runs again |
/// | [`ControlFlow::Break`] | ends, and the value is the output of its [`ScheduledTask`](super::ScheduledTask) |
///
/// The output type of a task whose runs return `()` is `()`, but it never returns that output. Its handle returns
/// an error when the task ends.
///
/// This trait is sealed: no other type can implement it.
pub trait RunOutput: sealed::Sealed {
    /// The output of the task.
    type Output: Send + 'static;

    #[doc(hidden)]
    fn into_control_flow(self) -> ControlFlow<Self::Output>;
}

impl RunOutput for () {
    type Output = ();

    fn into_control_flow(self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl<T: Send + 'static> RunOutput for ControlFlow<T> {
    type Output = T;

    fn into_control_flow(self) -> ControlFlow<T> {
        self
    }
}

mod sealed {
    use std::ops::ControlFlow;

    pub trait Sealed {}
    impl Sealed for () {}
    impl<T> Sealed for ControlFlow<T> {}
}

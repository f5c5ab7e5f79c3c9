//! What a scheduled task does when it is due: run once, or run and wait again.

use std::{convert::Infallible, future::Future, ops::ControlFlow, time::Duration};

use tokio::time::{Instant, MissedTickBehavior};

use crate::{driver::clock, futures::interval::next_tick};

/// The work of a scheduled task, while it waits.
pub(super) trait Work: Send + Sized + 'static {
    /// What the task returns when it ends.
    type Output: Send + 'static;

    /// The work of the next run. A task that runs once has none, so what comes after its run is
    /// small.
    type Next: Into<Self>;

    /// Whether a run may be followed by another.
    const PERIODIC: bool;

    /// Makes a run, which was due at `due`.
    fn run(self, due: Instant) -> impl Future<Output: Into<AfterRun<Self>>> + Send;
}

/// What comes after a run.
pub(super) enum After<T, N> {
    /// The task has ended.
    End(T),
    /// The next run is due at an instant, which may have passed.
    Again(N, Instant),
}

/// What comes after a run of that work.
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

/// A closure that makes the future of each run.
pub(super) struct Periodic<C> {
    pub(super) make: C,
    pub(super) period: Duration,
    pub(super) pace: Pace,
}

/// What the period of a periodic task is counted from.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// From when the last run was due, or as the behaviour says if that started late.
    FixedRate(MissedTickBehavior),
    /// From the end of the last run.
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
            // The future has been dropped, which may take its time.
            let next = match self.pace {
                Pace::FixedRate(behavior) => next_tick(due, started, self.period, behavior),
                Pace::FixedDelay => clock::after(self.period),
            };
            After::Again(self, next)
        }
    }
}

/// What a run of a periodic task may return: whether there is to be another.
///
/// * `()`: there is. The task runs until it is cancelled, panics or its timer shuts down.
/// * [`ControlFlow<T>`]: [`Continue`](ControlFlow::Continue), or [`Break`](ControlFlow::Break) with
///   what the task returns.
///
/// Nothing else implements this trait.
pub trait RunOutput: sealed::Sealed {
    /// What the task returns when it ends.
    type Output: Send + 'static;

    #[doc(hidden)]
    fn into_control_flow(self) -> ControlFlow<Self::Output>;
}

impl RunOutput for () {
    type Output = Infallible;

    fn into_control_flow(self) -> ControlFlow<Infallible> {
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

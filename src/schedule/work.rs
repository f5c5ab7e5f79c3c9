//! What a scheduled task does when it is due: run once, or run and wait again.

use std::{
    convert::Infallible,
    future::Future,
    ops::ControlFlow,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Instant, MissedTickBehavior};

use crate::{driver::clock, futures::interval::next_tick};

/// The work of a scheduled task, while it waits.
pub(crate) trait Work: Send + Sized + 'static {
    /// What the task returns when it ends.
    type Output: Send + 'static;

    /// The work of the next run: none if there never is one, so that what comes after a run is no
    /// larger than it has to be.
    type Next: Into<Self>;

    /// One run.
    type Run: Future<Output = After<Self::Output, Self::Next>> + Send + 'static;

    /// Whether a run may be followed by another.
    const PERIODIC: bool;

    /// Makes a run, which was due at `due`.
    fn run(self, due: Instant) -> Self::Run;
}

/// What comes after a run.
pub(crate) enum After<T, N> {
    /// The task has ended.
    End(T),
    /// The next run is due at an instant, which may have passed.
    Again(N, Instant),
}

/// A future that runs once.
pub(crate) struct Once<F>(pub(crate) F);

impl<F> Work for Once<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Output = F::Output;
    type Next = Infallible;
    type Run = OnceRun<F>;

    const PERIODIC: bool = false;

    fn run(self, _due: Instant) -> OnceRun<F> {
        OnceRun { future: self.0 }
    }
}

impl<F> From<Infallible> for Once<F> {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

pin_project! {
    /// The run of a [`Once`]. Written by hand, as an `async` block would hold the future twice: as
    /// what it captured and as what it awaits (`schedule::memory`).
    pub(crate) struct OnceRun<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for OnceRun<F> {
    type Output = After<F::Output, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx).map(After::End)
    }
}

/// A closure that makes the future of each run.
pub(crate) struct Periodic<C> {
    pub(crate) make: C,
    pub(crate) pace: Pace,
}

/// When the next run of a periodic task is due.
#[derive(Clone, Copy)]
pub(crate) enum Pace {
    /// A period after the last one was due, or as the behaviour says if that one started late.
    FixedRate {
        period: Duration,
        behavior: MissedTickBehavior,
    },
    /// A delay after the last one has ended.
    FixedDelay { delay: Duration },
}

impl<C, F> Work for Periodic<C>
where
    C: FnMut() -> F + Send + 'static,
    F: Future + Send + 'static,
    F::Output: RunOutput,
{
    type Output = <F::Output as RunOutput>::Output;
    type Next = Self;
    type Run = PeriodicRun<C, F>;

    const PERIODIC: bool = true;

    fn run(self, due: Instant) -> PeriodicRun<C, F> {
        PeriodicRun {
            work: Some(self),
            due,
            started: due,
            future: None,
        }
    }
}

pin_project! {
    /// The run of a [`Periodic`]. It is not polled again when it has ended.
    pub(crate) struct PeriodicRun<C, F> {
        // Taken for the next run.
        work: Option<Periodic<C>>,
        due: Instant,
        // Known as soon as there is a future.
        started: Instant,
        #[pin]
        future: Option<F>,
    }
}

impl<C, F> Future for PeriodicRun<C, F>
where
    C: FnMut() -> F,
    F: Future,
    F::Output: RunOutput,
{
    type Output = After<<F::Output as RunOutput>::Output, Periodic<C>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let (None, Some(work)) = (&*this.future, &mut *this.work) {
            *this.started = Instant::now();
            this.future.set(Some((work.make)()));
        }
        let Some(future) = this.future.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        let output = ready!(future.poll(cx));
        // Before the present is looked at: the run ends with its future's drop.
        this.future.set(None);
        if let ControlFlow::Break(output) = output.into_control_flow() {
            return Poll::Ready(After::End(output));
        }
        let Some(work) = this.work.take() else {
            return Poll::Pending;
        };
        let next = match work.pace {
            Pace::FixedRate { period, behavior } => {
                next_tick(*this.due, *this.started, period, behavior)
            }
            Pace::FixedDelay { delay } => clock::after(delay),
        };
        Poll::Ready(After::Again(work, next))
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

//! What a scheduled task does when it is due: run once, or run and wait again.

use std::{convert::Infallible, future::Future, ops::ControlFlow, time::Duration};

use tokio::time::{Instant, MissedTickBehavior};

use crate::{clock, interval::next_tick};

/// The work of a scheduled task, while it waits.
pub(crate) trait Work: Send + Sized + 'static {
    /// What the task puts out when it ends.
    type Output: Send + 'static;

    /// Whether a run may be followed by another.
    const PERIODIC: bool;

    /// Runs once. The run was due at `due`.
    fn run(self, due: Instant) -> impl Future<Output = After<Self>> + Send + 'static;
}

/// What comes after a run.
pub(crate) enum After<W: Work> {
    /// The task has ended.
    End(W::Output),
    /// The next run is due at an instant, which may have passed.
    Again(W, Instant),
}

/// A future that runs once.
pub(crate) struct Once<F>(pub(crate) F);

impl<F> Work for Once<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Output = F::Output;

    const PERIODIC: bool = false;

    async fn run(self, _due: Instant) -> After<Self> {
        After::End(self.0.await)
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

    const PERIODIC: bool = true;

    async fn run(mut self, due: Instant) -> After<Self> {
        let started = Instant::now();
        let output = (self.make)().await;
        match output.into_control_flow() {
            ControlFlow::Break(output) => After::End(output),
            ControlFlow::Continue(()) => {
                let next = match self.pace {
                    Pace::FixedRate { period, behavior } => {
                        next_tick(due, started, period, behavior)
                    }
                    Pace::FixedDelay { delay } => clock::after(delay),
                };
                After::Again(self, next)
            }
        }
    }
}

/// What a run of a periodic task may put out: whether there is to be another.
///
/// * `()`: there is. The task runs until it is cancelled, panics or its timer shuts down.
/// * [`ControlFlow<T>`]: [`Continue`](ControlFlow::Continue), or [`Break`](ControlFlow::Break) with
///   what the task puts out.
///
/// Nothing else implements this trait.
pub trait RunOutput: sealed::Sealed {
    /// What the task puts out when it ends.
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

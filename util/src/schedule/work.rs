//! The work of a scheduled task: a future that runs once, or a closure that returns a future for each run.

use std::{future::Future, ops::ControlFlow, time::Duration};

use tokio::time::{Instant, MissedTickBehavior};

use crate::limit::saturating_add;

/// The work of a scheduled task while the task waits.
pub(super) trait Work: Send + Sized + 'static {
    /// The output of the task.
    type Output: Send + 'static;

    /// The output of a run.
    type Ran: Send;

    /// Whether the task may run more than once.
    const PERIODIC: bool;

    /// Returns the future of a run. `due` is the deadline of the run.
    fn run(self, due: Instant) -> impl Future<Output = Self::Ran> + Send;

    /// Returns the output of the task, or the work and the deadline of the next run. The deadline may have passed.
    fn next(ran: Self::Ran) -> ControlFlow<Self::Output, (Self, Instant)>;
}

/// A future that runs once.
impl<F: Future<Output: Send + 'static> + Send + 'static> Work for F {
    type Output = F::Output;
    type Ran = F::Output;

    const PERIODIC: bool = false;

    fn run(self, _due: Instant) -> impl Future<Output = Self::Ran> + Send {
        self
    }

    fn next(output: F::Output) -> ControlFlow<F::Output, (Self, Instant)> {
        ControlFlow::Break(output)
    }
}

/// A closure that returns the future of each run.
pub(super) struct Periodic<C> {
    pub(super) make: C,
    pub(super) period: Duration,
    pub(super) pace: Pace,
}

/// The instant from which a periodic task measures the time to its next run.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// The deadline of the last run. If the last run started late, the behavior decides.
    FixedRate(MissedTickBehavior),
    /// The end of the last run.
    FixedDelay,
}

impl<C, F> Work for Periodic<C>
where
    C: FnMut() -> F + Send + 'static,
    F: Future<Output: RunOutput> + Send + 'static,
{
    type Output = <F::Output as RunOutput>::Output;
    type Ran = ControlFlow<Self::Output, (Self, Instant)>;

    const PERIODIC: bool = true;

    async fn run(mut self, due: Instant) -> Self::Ran {
        let started = Instant::now();
        let output = (self.make)().await;
        output.into_control_flow()?;
        // The future of this run has been dropped above. The drop may take long, and a fixed delay begins only after it.
        let next = match self.pace {
            Pace::FixedRate(behavior) => next_deadline(due, started, self.period, behavior),
            Pace::FixedDelay => saturating_add(Instant::now(), self.period),
        };
        ControlFlow::Continue((self, next))
    }

    fn next(ran: Self::Ran) -> Self::Ran {
        ran
    }
}

/// A run that starts more than this time after its deadline is late, as a tick of tokio's interval is.
const TOLERANCE: Duration = Duration::from_millis(5);

/// Returns the deadline of the run that follows a run with the deadline `due`, which started at `started`.
fn next_deadline(
    due: Instant,
    started: Instant,
    period: Duration,
    behavior: MissedTickBehavior,
) -> Instant {
    let lateness = started.saturating_duration_since(due);
    let from = match behavior {
        _ if lateness <= TOLERANCE => due,
        MissedTickBehavior::Delay => started,
        MissedTickBehavior::Skip => {
            let missed = lateness.as_nanos() / period.as_nanos();
            due + Duration::from_nanos((missed * period.as_nanos()) as u64)
        }
        _ => due,
    };
    saturating_add(from, period)
}

/// The types that a run of a periodic task may return.
///
/// | value that a run returns | effect on the task |
/// |---|---|
/// | `()` | The task runs again. It ends when it is canceled, when it panics or when its scheduler shuts down. |
/// | [`ControlFlow::Continue`] | The task runs again. |
/// | [`ControlFlow::Break`] | The task ends. Awaiting its [`ScheduledTask`](super::ScheduledTask) returns the value. |
///
/// If the runs of a task return `()`, the task has the output type `()`. Such a task never has an output: its handle
/// returns an error when the task ends.
///
/// # Examples
///
/// A run may return a type of your own:
///
/// ```
/// use std::ops::ControlFlow;
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::schedule::{RunOutput, Scheduler};
///
/// enum Probe {
///     Ok,
///     Failed(u16),
/// }
///
/// impl RunOutput for Probe {
///     type Output = u16;
///
///     fn into_control_flow(self) -> ControlFlow<u16> {
///         match self {
///             Self::Ok => ControlFlow::Continue(()),
///             Self::Failed(status) => ControlFlow::Break(status),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let second = Duration::from_secs(1);
/// let mut probes = [Probe::Ok, Probe::Failed(503)].into_iter();
/// let task = Scheduler::new().schedule_at_fixed_rate(second, second, move || {
///     let probe = probes.next().unwrap();
///     async { probe }
/// })?;
/// assert_eq!(task.await?, 503);
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "a run of a periodic task may return `()` or `ControlFlow`, but not `{Self}`",
    note = "handle an error in the run, or return `ControlFlow::Break` to end the task"
)]
pub trait RunOutput {
    /// The output of the task.
    type Output: Send + 'static;

    /// Returns whether the task runs again, or its output.
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

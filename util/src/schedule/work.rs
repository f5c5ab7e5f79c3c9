//! The work of a scheduled task: a future that runs once, or a closure that returns a future for each run.

use std::{future::Future, future::poll_fn, ops::ControlFlow, time::Duration};

use tokio::time::{Instant, MissedTickBehavior};

use crate::limit::saturating_add;

/// The work of a scheduled task while the task waits.
pub(super) trait Work: Send + Sized + 'static {
    /// The output of the task.
    type Output: Send + 'static;

    /// Whether the task may run more than once.
    const PERIODIC: bool;

    /// Returns a run, which holds the future once. `due` is its deadline.
    fn run(self, due: Instant) -> impl Future<Output = Ran<Self>> + Send + Unpin;
}

/// The output of the task, or the work and the deadline of the next run. The deadline may have passed.
pub(super) type Ran<W> = ControlFlow<<W as Work>::Output, (W, Instant)>;

/// A future that runs once.
impl<F: Future<Output: Send + 'static> + Send + 'static> Work for F {
    type Output = F::Output;

    const PERIODIC: bool = false;

    fn run(self, _due: Instant) -> impl Future<Output = Ran<Self>> + Send + Unpin {
        let mut future = Box::pin(self);
        poll_fn(move |cx| future.as_mut().poll(cx).map(ControlFlow::Break))
    }
}

/// A closure that returns the future of each run.
pub(super) struct Periodic<C> {
    pub(super) make: C,
    pub(super) period: Duration,
    /// What happens at a fixed rate after a late run. `None` stands for a fixed delay.
    pub(super) behavior: Option<MissedTickBehavior>,
}

/// A run that starts more than this time after its deadline is late, as a tick of tokio's interval is.
const TOLERANCE: Duration = Duration::from_millis(5);

impl<C, F> Work for Periodic<C>
where
    C: FnMut() -> F + Send + 'static,
    F: Future<Output: RunOutput> + Send + 'static,
{
    type Output = <F::Output as RunOutput>::Output;

    const PERIODIC: bool = true;

    fn run(mut self, due: Instant) -> impl Future<Output = Ran<Self>> + Send + Unpin {
        Box::pin(async move {
            let started = Instant::now();
            let output = (self.make)().await;
            output.into_control_flow()?;
            let lateness = started.saturating_duration_since(due);
            let from = match self.behavior {
                // The future of this run has been dropped above. The drop may take long, and the delay begins only after it.
                None => Instant::now(),
                Some(MissedTickBehavior::Delay) if lateness > TOLERANCE => started,
                Some(MissedTickBehavior::Skip) if lateness > TOLERANCE => {
                    let since_missed = lateness.as_nanos() % self.period.as_nanos();
                    started - Duration::from_nanos(since_missed as u64)
                }
                Some(_) => due,
            };
            let next = saturating_add(from, self.period);
            ControlFlow::Continue((self, next))
        })
    }
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

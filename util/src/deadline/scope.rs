//! The limit that is in force: a thread-local that is set only while a scope polls.

use std::{cell::Cell, panic::Location, time::Duration};

use tokio::{
    task::{self, Id},
    time::Instant,
};

/// A time limit: when it ends, how long it is, its name and where it was set.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::deadline::{Deadline, within};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let scope = within(Duration::from_secs(2), async {
///     let deadline = Deadline::current().unwrap();
///     assert_eq!(deadline.name(), Some("page"));
///     assert_eq!(deadline.limit(), Duration::from_secs(2));
///     assert_eq!(deadline.remaining(), Duration::from_secs(2));
/// });
/// assert!(scope.named("page").await.is_ok());
/// assert!(Deadline::current().is_none());
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    pub(super) instant: Instant,
    /// The instant is at most this long after an instant at which the limit was already running.
    pub(super) limit: Duration,
    pub(super) name: Option<&'static str>,
    pub(super) set_at: &'static Location<'static>,
}

impl Deadline {
    /// Returns the deadline of the innermost scope, or `None` outside of all scopes.
    ///
    /// If an outer limit ends first, this is the outer limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::deadline::{Deadline, within};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let scope = within(Duration::from_secs(2), async {
    ///     let deadline = Deadline::current().unwrap();
    ///     assert_eq!(deadline.name(), Some("page"));
    /// });
    /// assert!(scope.named("page").await.is_ok());
    /// # }
    /// ```
    pub fn current() -> Option<Self> {
        current().map(|scope| scope.deadline)
    }

    /// Returns the instant at which the limit ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::deadline::{Deadline, within};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let scope = within(Duration::from_secs(2), async {
    ///     let deadline = Deadline::current().unwrap();
    ///     assert_eq!(deadline.instant(), start + Duration::from_secs(2));
    /// });
    /// assert!(scope.named("page").await.is_ok());
    /// # }
    /// ```
    pub const fn instant(&self) -> Instant {
        self.instant
    }

    /// Returns the length of the whole limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::deadline::{Deadline, within};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let scope = within(Duration::from_secs(2), async {
    ///     let deadline = Deadline::current().unwrap();
    ///     assert_eq!(deadline.limit(), Duration::from_secs(2));
    /// });
    /// assert!(scope.named("page").await.is_ok());
    /// # }
    /// ```
    pub const fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the name of the limit, if it has one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::deadline::{Deadline, within};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let scope = within(Duration::from_secs(2), async {
    ///     let deadline = Deadline::current().unwrap();
    ///     assert_eq!(deadline.name(), Some("page"));
    /// });
    /// assert!(scope.named("page").await.is_ok());
    /// # }
    /// ```
    pub const fn name(&self) -> Option<&'static str> {
        self.name
    }

    /// Returns the source location that set the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::deadline::{Deadline, within};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let line = line!() + 1;
    /// let scope = within(Duration::from_secs(2), async move {
    ///     let deadline = Deadline::current().unwrap();
    ///     assert_eq!(deadline.location().line(), line);
    /// });
    /// assert!(scope.named("page").await.is_ok());
    /// # }
    /// ```
    pub const fn location(&self) -> &'static Location<'static> {
        self.set_at
    }

    /// Returns the remaining time, which is zero after the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, sleep};
    /// use tokio_wheel_util::deadline::{Deadline, within};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let scope = within(Duration::from_secs(2), async {
    ///     sleep(Duration::from_secs(1)).await;
    ///     let deadline = Deadline::current().unwrap();
    ///     assert_eq!(deadline.remaining(), Duration::from_secs(1));
    /// });
    /// assert!(scope.named("page").await.is_ok());
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.instant.saturating_duration_since(Instant::now())
    }
}

#[derive(Clone, Copy)]
pub(super) struct Scope {
    pub(super) deadline: Deadline,
    /// Whether the deadline has passed, and the scope goes on only for a future [`outside`](super::outside) of it.
    pub(super) has_ended: bool,
    /// The task that is in the scope. A scope may poll other tasks, as that of a `LocalSet` does.
    task: Option<Id>,
}

thread_local! {
    static SCOPE: Cell<Option<Scope>> = const { Cell::new(None) };
    /// How often a future outside of its scope was pending.
    static OUTSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Returns the scope in which the current task runs.
#[inline]
pub(super) fn current() -> Option<Scope> {
    SCOPE.get().filter(|scope| scope.task == task::try_id())
}

/// Lets all scopes that poll now go on after their ends, because a future outside of them is pending.
pub(super) fn keep_alive() {
    OUTSIDE.set(OUTSIDE.get().wrapping_add(1));
}

/// Restores the outer scope when it is dropped, also by a panic.
pub(super) struct Entered {
    outer: Option<Scope>,
    outside: usize,
}

impl Entered {
    #[inline]
    pub(super) fn new(scope: Option<(Deadline, bool)>) -> Self {
        let scope = scope.map(|(deadline, has_ended)| Scope {
            deadline,
            has_ended,
            task: task::try_id(),
        });
        Self {
            outer: SCOPE.replace(scope),
            outside: OUTSIDE.get(),
        }
    }

    /// Returns whether a future outside of the scope is pending.
    #[inline]
    pub(super) fn must_go_on(&self) -> bool {
        OUTSIDE.get() != self.outside
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        SCOPE.set(self.outer);
        // The future of another task, such as one of a `LocalSet`, keeps no scope of this task alive.
        if self.outer.is_some_and(|outer| outer.task != task::try_id()) {
            OUTSIDE.set(self.outside);
        }
    }
}

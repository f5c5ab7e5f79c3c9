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
        current(task::try_id(), |deadline, _| *deadline)
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

/// A scope that polls, or a future [`outside`](super::outside) that does.
#[derive(Clone, Copy)]
struct Scope {
    deadline: Option<Deadline>,
    /// Whether the deadline has passed, and the scope goes on only for a future outside of it.
    has_ended: bool,
    /// The task that is in the scope. A scope may poll other tasks, as that of a `LocalSet` does.
    task: Option<Id>,
}

// They have no destructors, so an access does not check whether they were dropped.
thread_local! {
    /// The innermost scope.
    static SCOPE: Cell<Option<Scope>> = const { Cell::new(None) };
    /// Whether a future outside of the innermost scope is pending.
    static MUST_GO_ON: Cell<bool> = const { Cell::new(false) };
}

/// Calls `look` with the deadline of the scope in which `task` runs, and with whether it has passed.
#[inline]
pub(super) fn current<T>(task: Option<Id>, look: impl FnOnce(&Deadline, bool) -> T) -> Option<T> {
    let scope = SCOPE.get().filter(|scope| scope.task == task)?;
    Some(look(scope.deadline.as_ref()?, scope.has_ended))
}

/// Lets the scopes of this task that poll now go on after their ends, because a future outside of them is pending.
pub(super) fn keep_alive() {
    MUST_GO_ON.set(true);
}

/// Leaves the scope when it is dropped, also by a panic. It has the outer scope, and whether that must go on.
pub(super) struct Entered(Option<Scope>, bool);

impl Entered {
    #[inline]
    pub(super) fn new(task: Option<Id>, deadline: Option<Deadline>, has_ended: bool) -> Self {
        // Copies an outer scope only if there is one. A copy takes 10 ns, because a processor waits before it reads in one
        // piece what it has just written in several.
        let outer = match SCOPE.get().is_some() {
            true => SCOPE.get(),
            false => None,
        };
        SCOPE.set(Some(Scope {
            deadline,
            has_ended,
            task,
        }));
        Self(outer, MUST_GO_ON.replace(false))
    }

    /// Returns whether a future outside of the scope is pending.
    #[inline]
    pub(super) fn must_go_on(&self) -> bool {
        MUST_GO_ON.get()
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        let Some(outer) = self.0 else {
            return SCOPE.set(None);
        };
        // The future of another task, such as one of a `LocalSet`, keeps no scope of this task alive.
        let is_same_task = SCOPE.get().is_some_and(|left| left.task == outer.task);
        MUST_GO_ON.set(self.1 || is_same_task && MUST_GO_ON.get());
        SCOPE.set(Some(outer));
    }
}

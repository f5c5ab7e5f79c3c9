//! The limit that is in force: a thread-local that is set only while a scope polls.

use std::{cell::RefCell, panic::Location, time::Duration};

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
struct Scope {
    deadline: Option<Deadline>,
    /// Whether the deadline has passed, and the scope goes on only for a future outside of it.
    has_ended: bool,
    /// The task that is in the scope. A scope may poll other tasks, as that of a `LocalSet` does.
    task: Option<Id>,
    /// Whether a future outside of the scope is pending.
    must_go_on: bool,
}

thread_local! {
    /// The innermost scope is the last. A stack, because moving an outer scope away and back takes 10 ns: a processor waits
    /// before it reads in one piece what it has just written in several.
    static SCOPES: RefCell<Vec<Scope>> = const { RefCell::new(Vec::new()) };
}

/// Calls `call` with the scopes of this thread. A thread that has dropped its thread-locals has no scopes.
#[inline]
fn with<T>(call: impl FnOnce(&mut Vec<Scope>) -> T) -> Option<T> {
    SCOPES
        .try_with(|scopes| call(&mut scopes.borrow_mut()))
        .ok()
}

/// Calls `look` with the deadline of the scope in which `task` runs, and with whether it has passed.
#[inline]
pub(super) fn current<T>(task: Option<Id>, look: impl FnOnce(&Deadline, bool) -> T) -> Option<T> {
    with(|scopes| {
        let scope = scopes.last().filter(|scope| scope.task == task)?;
        Some(look(scope.deadline.as_ref()?, scope.has_ended))
    })?
}

/// Lets the scopes of this task that poll now go on after their ends, because a future outside of them is pending.
pub(super) fn keep_alive() {
    with(|scopes| scopes.last_mut().map(|scope| scope.must_go_on = true));
}

/// Leaves the scope when it is dropped, also by a panic.
pub(super) struct Entered(());

impl Entered {
    #[inline]
    pub(super) fn new(task: Option<Id>, deadline: Option<Deadline>, has_ended: bool) -> Self {
        let scope = Scope {
            deadline,
            has_ended,
            task,
            must_go_on: false,
        };
        with(|scopes| scopes.push(scope));
        Self(())
    }

    /// Returns whether a future outside of the scope is pending.
    #[inline]
    pub(super) fn must_go_on(&self) -> bool {
        with(|scopes| scopes.last().is_some_and(|scope| scope.must_go_on)) == Some(true)
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        with(|scopes| {
            let left = scopes.pop();
            // The future of another task, such as one of a `LocalSet`, keeps no scope of this task alive.
            if let (Some(left), Some(outer)) = (left, scopes.last_mut()) {
                outer.must_go_on |= left.must_go_on && left.task == outer.task;
            }
        });
    }
}

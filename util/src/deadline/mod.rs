//! Deadlines that cover a request and everything it calls, even in other tasks and on other servers.
//!
//! ```
//! use tokio_wheel::{Duration, Instant, sleep};
//! use tokio_wheel_util::deadline::{self, Exceeded, within};
//!
//! async fn load_user() -> Result<&'static str, Exceeded> {
//!     let query = sleep(Duration::from_secs(1));
//!     within(Duration::from_secs(5), query).named("load user").await?;
//!     Ok("a user")
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let start = Instant::now();
//! let page = within(Duration::from_secs(2), async {
//!     let user = load_user().await?;
//!     assert_eq!(deadline::remaining(), Some(Duration::from_secs(1)));
//!     // A task keeps the deadline. With a plain `tokio::spawn`, it would have none.
//!     let audit = tokio::spawn(deadline::inherit(async { deadline::remaining() }));
//!     assert_eq!(audit.await.unwrap()?, Some(Duration::from_secs(1)));
//!     load_user().await?;
//!     load_user().await // None of this runs, because the time is up.
//! });
//! let exceeded = page.named("page").await.unwrap_err();
//! assert_eq!(start.elapsed(), Duration::from_secs(2));
//! let text = exceeded.to_string();
//! assert!(text.starts_with("`page` exceeded its limit of 2s after 2s (set at "), "{text}");
//! # }
//! ```
//!
//! # Scopes
//!
//! * A future [`within`](within()) a limit is a *scope*. While it is polled, all code that it calls is in the scope.
//! * A limit inside a scope ends at the earlier of both deadlines. If that is the scope's, the limit registers no entry in
//!   the timer, and if the limit is at least as long as the scope's, it does not even read the clock.
//! * Once a scope has ended, nothing in it is polled anymore, so a result that is ready but polled too late is lost. A
//!   running poll is not interrupted: it ends at its next pending `.await`, or when it begins a limit that is shorter than
//!   the scope's.
//! * A scope belongs to its task. Other tasks that the thread polls in the meantime, for example those of a `LocalSet`, are
//!   not in it. To pass the scope to a task, use [`inherit`].
//!
//! # Servers and clients
//!
//! [`http::TimeoutLayer`](crate::http::TimeoutLayer) opens a scope around a handler, and can take its length from a request
//! header. Around a client, [`http::TimeoutHeaderLayer`](crate::http::TimeoutHeaderLayer) writes the remaining time into a
//! header. This way, one deadline reaches all servers that work on a request.
//!
//! # Errors
//!
//! [`Exceeded`] says which limit ended the future: its name, its length, where it was set, and how long the future took.
//! It converts to an [`io::Error`](std::io::Error) and to the boxed errors of tower, hyper and axum, in which
//! [`Exceeded::find`] finds it. An axum handler should map it to a status. Do not send its text to clients, because it names a
//! source file. If a `TimeoutLayer` responds for a handler, the error is in the extensions of the response.

mod error;
mod scope;
mod within;

use std::{
    future::{Future, IntoFuture},
    panic::Location,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::{task, time::Instant};

pub use error::Exceeded;
pub use scope::Deadline;
use scope::Entered;
pub use within::Within;

/// Requires a future, and everything it awaits, to complete within `limit`.
///
/// The limit starts with the first poll. The first poll polls the future, even if the limit is zero. If the future is ready
/// then, no entry is registered. If the first poll is in a scope whose limit is as short or shorter, that scope ends first. A
/// future that leaves the scope, because it was polled by reference, has until `limit` after it left, or after the scope's end if
/// that is earlier.
///
/// # Cancel safety
///
/// Dropping the returned future drops the inner future and deregisters the limit.
///
/// # Panics
///
/// If the inner future is pending and no outer limit ends first, the returned future panics in the cases that
/// [`sleep`](tokio_wheel::sleep()) lists.
///
/// # Errors
///
/// The output is [`Exceeded`] if the future was not ready within this limit, or is polled in a scope that has ended.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::deadline::within;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let limit = Duration::from_secs(30);
/// assert_eq!(within(limit, async { "in time" }).await, Ok("in time"));
/// assert!(within(limit, std::future::pending::<()>()).await.is_err());
/// # }
/// ```
#[inline]
#[track_caller]
pub fn within<F: IntoFuture>(limit: Duration, future: F) -> Within<F::IntoFuture> {
    Within::new(limit, Location::caller(), future.into_future())
}

/// Requires a future, and everything it awaits, to complete before `deadline`.
///
/// After the deadline, the future is not polled at all, unless it is in a scope that has ended in the middle of its own poll.
/// Apart from this, the function does what [`within`](within()) does.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, Instant};
/// use tokio_wheel_util::deadline::until;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let deadline = Instant::now() + Duration::from_secs(30);
/// assert_eq!(until(deadline, async { "in time" }).await, Ok("in time"));
/// assert!(until(deadline, std::future::pending::<()>()).await.is_err());
/// assert!(until(deadline, async { "too late" }).await.is_err());
/// # }
/// ```
#[track_caller]
pub fn until<F: IntoFuture>(deadline: Instant, future: F) -> Within<F::IntoFuture> {
    let deadline = Deadline {
        instant: deadline,
        limit: deadline.saturating_duration_since(Instant::now()),
        name: None,
        set_at: Location::caller(),
    };
    Within::until(Some(deadline), false, future.into_future())
}

/// Returns the remaining time of the innermost scope, or `None` outside of all scopes.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, sleep};
/// use tokio_wheel_util::deadline::{remaining, within};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// assert_eq!(remaining(), None);
/// let scope = within(Duration::from_secs(3), async {
///     sleep(Duration::from_secs(1)).await;
///     remaining()
/// });
/// assert_eq!(scope.await, Ok(Some(Duration::from_secs(2))));
/// # }
/// ```
pub fn remaining() -> Option<Duration> {
    Deadline::current().map(|deadline| deadline.remaining())
}

/// Gives a future the deadline of the current scope, so that it also applies in another task. Outside of all scopes, the
/// future has no limit.
///
/// # Errors
///
/// The output is [`Exceeded`] if the future was not ready before the deadline. Its
/// [`is_outer`](Exceeded::is_outer) is `true`.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::deadline::{inherit, within};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let spawn = async { tokio::spawn(inherit(std::future::pending::<()>())) };
/// let task = within(Duration::from_secs(3), spawn).named("page").await.unwrap();
/// let exceeded = task.await.unwrap().unwrap_err();
/// assert!(exceeded.is_outer());
/// assert_eq!(exceeded.deadline().name(), Some("page"));
/// # }
/// ```
#[track_caller]
pub fn inherit<F: IntoFuture>(future: F) -> Within<F::IntoFuture> {
    Within::until(Deadline::current(), true, future.into_future())
}

/// Takes a future out of all scopes, for work that must not be interrupted, such as a rollback.
///
/// The scopes around it stay alive until the future is ready, and then end as soon as they are pending or begin a limit. A
/// future next to it, for example in a `join!`, keeps running with them. If a scope is dropped, the future is dropped too.
///
/// Await it directly, or in a `join!` or `select!`. A container that polls only the futures that were woken, such as
/// `FuturesUnordered` or a large `join_all`, hides it from the scopes, which then end in time. Spawn the future there.
///
/// # Cancel safety
///
/// Dropping the returned future drops the inner future.
///
/// # Examples
///
/// ```
/// use tokio_wheel::{Duration, Instant, sleep};
/// use tokio_wheel_util::deadline::{outside, remaining, within};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let start = Instant::now();
/// let rollback = async {
///     assert_eq!(remaining(), None);
///     sleep(Duration::from_secs(5)).await;
///     "rolled back"
/// };
/// assert_eq!(within(Duration::from_secs(2), outside(rollback)).await, Ok("rolled back"));
/// assert_eq!(start.elapsed(), Duration::from_secs(5));
/// # }
/// ```
pub fn outside<F: IntoFuture>(future: F) -> Outside<F::IntoFuture> {
    let future = future.into_future();
    Outside { future }
}

pin_project! {
    /// The future that [`outside`] returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the inner future.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Outside<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Outside<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = task::try_id();
        let is_inside = scope::current(task, |_, _| ()).is_some();
        let entered = Entered::new(task, None, false);
        let polled = self.project().future.poll(cx);
        drop(entered);
        if is_inside && polled.is_pending() {
            scope::keep_alive();
        }
        polled
    }
}

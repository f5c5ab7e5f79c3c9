//! The error of a limit.

use std::{error::Error, fmt, io, time::Duration};

use super::Deadline;
use crate::limit::find;

/// The error of a future that did not complete in time. It says which limit ended the future.
///
/// The error converts to an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut), and to the boxed errors of
/// tower and hyper. [`find`](Self::find) finds it in all of these.
///
/// # Examples
///
/// ```
/// use std::io;
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::deadline::{Exceeded, within};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let never = within(Duration::from_millis(300), std::future::pending::<()>());
/// let exceeded = never.named("load user").await.unwrap_err();
/// let text = exceeded.to_string();
/// assert!(text.starts_with("`load user` exceeded its limit of 300ms after 300ms (set at "), "{text}");
///
/// let error = io::Error::from(exceeded.clone());
/// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
/// assert_eq!(Exceeded::find(&error), Some(&exceeded));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    deadline: Deadline,
    took: Duration,
    is_outer: bool,
}

impl Exceeded {
    #[cold]
    pub(super) fn new(deadline: Deadline, is_outer: bool) -> Self {
        Self(Box::new(Details {
            deadline,
            took: deadline.limit.saturating_add(deadline.instant.elapsed()),
            is_outer,
        }))
    }

    /// Returns the limit that ended the future.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::deadline::within;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let never = within(Duration::from_secs(2), std::future::pending::<()>());
    /// let exceeded = never.named("page").await.unwrap_err();
    /// assert_eq!(exceeded.deadline().name(), Some("page"));
    /// # }
    /// ```
    pub const fn deadline(&self) -> Deadline {
        self.0.deadline
    }

    /// Returns how long the limit had been running when the future ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::deadline::within;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let never = within(Duration::from_secs(2), std::future::pending::<()>());
    /// let exceeded = never.named("page").await.unwrap_err();
    /// assert_eq!(exceeded.took(), Duration::from_secs(2));
    /// # }
    /// ```
    pub const fn took(&self) -> Duration {
        self.0.took
    }

    /// Returns whether an outer limit ended the future, rather than its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::deadline::within;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let never = within(Duration::from_secs(2), std::future::pending::<()>());
    /// let exceeded = never.named("page").await.unwrap_err();
    /// assert!(!exceeded.is_outer());
    ///
    /// let inner = within(Duration::from_secs(9), std::future::pending::<()>());
    /// let page = within(Duration::from_secs(2), async { inner.await.unwrap_err().is_outer() });
    /// assert!(page.await.is_err(), "the outer limit ends both");
    /// # }
    /// ```
    pub const fn is_outer(&self) -> bool {
        self.0.is_outer
    }

    /// Returns the `Exceeded` that an error contains, if any.
    ///
    /// This method checks the error and then all of its causes, even inside an [`io::Error`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::deadline::{Exceeded, within};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let never = within(Duration::from_secs(2), std::future::pending::<()>());
    /// let exceeded = never.named("page").await.unwrap_err();
    /// let error = std::io::Error::from(exceeded);
    /// assert!(Exceeded::find(&error).is_some());
    /// assert!(Exceeded::find(&std::fmt::Error).is_none());
    /// # }
    /// ```
    pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        find(error)
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (deadline, took) = (self.deadline(), self.took());
        match deadline.name {
            Some(name) => write!(f, "`{name}` exceeded its limit of ")?,
            None => f.write_str("exceeded a limit of ")?,
        }
        let by = match self.is_outer() {
            true => "an outer limit, set",
            false => "set",
        };
        write!(
            f,
            "{:?} after {took:?} ({by} at {})",
            deadline.limit, deadline.set_at
        )
    }
}

impl Error for Exceeded {}

impl From<Exceeded> for io::Error {
    fn from(exceeded: Exceeded) -> Self {
        Self::new(io::ErrorKind::TimedOut, exceeded)
    }
}

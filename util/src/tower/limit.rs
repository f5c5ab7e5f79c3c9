//! The trait that decides how long each request may take.

use std::time::Duration;

/// Decides how long each request may take.
///
/// A [`Duration`] gives all requests the same limit. A closure returns a limit for each request. The closure
/// must name the type of its argument, for example `|request: &Request| ..`. Without the type, the closure
/// accepts references with only one lifetime, and the compiler rejects the closure as a limit.
///
/// # Examples
///
/// This type gives each query a limit that grows with the number of rows in the query:
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::tower::Limit;
///
/// struct Query {
///     rows: u32,
/// }
///
/// struct PerRow(Duration);
///
/// impl Limit<Query> for PerRow {
///     fn limit(&self, query: &Query) -> Option<Duration> {
///         Some(self.0 * query.rows)
///     }
/// }
///
/// let query = Query { rows: 3 };
/// let second = Duration::from_secs(1);
/// assert_eq!(PerRow(second).limit(&query), Some(3 * second));
/// assert_eq!(second.limit(&query), Some(second));
/// let closure = |query: &Query| (query.rows > 5).then_some(second);
/// assert_eq!(closure.limit(&query), None);
/// ```
pub trait Limit<Request> {
    /// Returns how long `request` may take. `None` means no limit.
    fn limit(&self, request: &Request) -> Option<Duration>;
}

impl<Request> Limit<Request> for Duration {
    fn limit(&self, _request: &Request) -> Option<Duration> {
        Some(*self)
    }
}

impl<Request, F> Limit<Request> for F
where
    F: Fn(&Request) -> Option<Duration>,
{
    fn limit(&self, request: &Request) -> Option<Duration> {
        self(request)
    }
}

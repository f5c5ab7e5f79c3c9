//! The result of a touch.

/// The result of a touch. [`IdleSet::touch`](super::IdleSet::touch) and the related methods return
/// it.
///
/// After `Inserted` and `Present`, the key is in the set. After `Absent` and `Closed`, the key is
/// not in the set. Later versions may add variants, for example for a limit on the number of keys.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::idle::{IdleSet, Touched};
///
/// let (set, reaper) = IdleSet::<String>::new(Duration::from_secs(30));
/// assert_eq!(set.touch_existing("a"), Touched::Absent);
/// assert_eq!(set.touch("a"), Touched::Inserted);
/// assert_eq!(set.touch("a"), Touched::Present);
///
/// drop(reaper);
/// assert_eq!(set.touch("a"), Touched::Closed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Touched {
    /// The key was not in the set. The touch inserted it.
    Inserted,
    /// The key was in the set already. The touch moved its deadline.
    Present,
    /// The key is not in the set, and the method does not insert keys.
    Absent,
    /// The set is closed, because its reaper was dropped. The touch did nothing.
    Closed,
}

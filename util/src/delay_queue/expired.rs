//! An element that is no longer in a queue, and the key of an element.

use std::fmt;

use tokio::time::Instant;

/// The key of one element of a [`DelayQueue`](super::DelayQueue).
///
/// A key never names another element of its queue, even after its own element is gone. Pass a key only to
/// the queue that returned it: in another queue, the key may name any element.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::delay_queue::DelayQueue;
///
/// let mut queue = DelayQueue::new();
/// let old = queue.insert("a", Duration::from_secs(5));
/// queue.remove(&old);
/// let new = queue.insert("b", Duration::from_secs(5));
/// assert_ne!(old, new);
/// assert!(queue.try_remove(&old).is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub(super) bounded_wheel::Key);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key of the wheel has the same name.
        self.0.fmt(f)
    }
}

/// An element that has expired or was removed from a [`DelayQueue`](super::DelayQueue), with its deadline and its key.
#[derive(Debug)]
pub struct Expired<T> {
    pub(super) data: T,
    pub(super) deadline: Instant,
    pub(super) key: Key,
}

impl<T> Expired<T> {
    /// Returns a reference to the element.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(5));
    /// assert_eq!(*queue.remove(&key).get_ref(), "a");
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &T {
        &self.data
    }

    /// Returns a mutable reference to the element.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert(7, Duration::from_secs(5));
    /// let mut removed = queue.remove(&key);
    /// *removed.get_mut() += 1;
    /// assert_eq!(removed.into_inner(), 8);
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.data
    }

    /// Returns the element.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(5));
    /// assert_eq!(queue.remove(&key).into_inner(), "a");
    /// ```
    #[must_use]
    pub fn into_inner(self) -> T {
        self.data
    }

    /// Returns the deadline of the element: see [`DelayQueue::deadline`](super::DelayQueue::deadline).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::{Duration, Instant};
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let deadline = Instant::now() + Duration::from_secs(5);
    /// let key = queue.insert_at("a", deadline);
    /// assert!(queue.remove(&key).deadline() >= deadline);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the key that the element had in the queue. The key names no element now.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::delay_queue::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(5));
    /// assert_eq!(queue.remove(&key).key(), key);
    /// ```
    #[must_use]
    pub fn key(&self) -> Key {
        self.key
    }
}

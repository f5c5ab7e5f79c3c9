//! The key of an entry. Keys never alias.
//!
//! A [`Key`] has an index and a stamp. A chunk increments its stamp with each insertion, and keeps
//! the stamp when its memory is freed. A chunk uses up its stamps after 4 billion insertions. The
//! chunk then accepts no more nodes, and its index is not used again. Each such chunk costs 48
//! bytes. Test: `stale_keys_never_alias` in
//! [`nodes`](super::nodes).

use std::num::{NonZeroU32, NonZeroU64};

/// Names one entry of one wheel. The key of an entry that is gone never names another entry.
///
/// # Examples
///
/// ```
/// use bounded_wheel::{Key, Wheel};
///
/// let mut wheel: Wheel<&str> = Wheel::new(0);
/// let read = wheel.insert(10, "read");
/// wheel.remove(read);
/// let write = wheel.insert(10, "write");
/// assert_ne!(read, write);
/// assert_eq!(wheel.get(read), None);
/// ```
// A key is one word. If a key had two halves, a function would store each half separately, and
// later load both halves at once. The processor cannot forward two separate stores to one load.
// With two halves, a registration took 3 ns more (`compare ops --workload churn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(NonZeroU64);

impl Key {
    /// A key that names no entry of any wheel.
    pub const ABSENT: Self = Self::new(u32::MAX, NonZeroU32::MIN);

    /// Another key that names no entry of any wheel, for an owner that stores two such states.
    pub const VACANT: Self = Self::new(u32::MAX, NonZeroU32::MAX);

    /// Returns whether this key is [`ABSENT`](Self::ABSENT) or [`VACANT`](Self::VACANT).
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{Key, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// assert!(Key::ABSENT.is_absent() && Key::VACANT.is_absent());
    /// assert!(!wheel.insert(10, "read").is_absent());
    /// ```
    #[inline]
    pub fn is_absent(self) -> bool {
        self.index() == u32::MAX
    }

    #[inline]
    pub(super) const fn new(index: u32, stamp: NonZeroU32) -> Self {
        let word = (stamp.get() as u64) << 32 | index as u64;
        Self(NonZeroU64::new(word).expect("a stamp is not zero"))
    }

    /// Returns the key as a word, which is not 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{Key, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// assert_eq!(Key::from_word(key.word()), Some(key));
    /// assert_eq!(Key::from_word(0), None);
    /// ```
    #[inline]
    pub fn word(self) -> u64 {
        self.0.get()
    }

    /// Returns the key with this [word](Self::word), or `None` for 0.
    #[inline]
    pub fn from_word(word: u64) -> Option<Self> {
        NonZeroU64::new(word).map(Self)
    }

    /// Returns the index of the entry. The entry may have left the wheel.
    #[inline]
    pub fn index(self) -> u32 {
        self.0.get() as u32
    }

    /// Returns the stamp, which distinguishes the entry from other entries at its index.
    #[inline]
    pub(super) fn stamp(self) -> u32 {
        (self.0.get() >> 32) as u32
    }
}

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

//! A hierarchical timing wheel for event loops, without a clock, a lock or a waker.
//!
//! An event loop keeps its timeouts in a [`Wheel`], waits until [`next_expiration`](Wheel::next_expiration), and calls
//! [`advance`](Wheel::advance). Time is a `u64` of ticks, and the loop chooses how long a tick is.
//!
//! * Inserting, removing and resetting an entry is O(1).
//! * Resetting to a later deadline only stores the deadline, so a connection can push its timeout back on every read.
//! * An advance costs as much as the slots that it visits, however many ticks have passed.
//! * An advance stops when its budget of steps is used up, even in the middle of a slot. So the loop can serve its sockets
//!   while a million entries expire.
//! * Keys are never reused: the [`Key`] of a removed entry never names another entry.
//! * If the wheel is behind a lock, you can [allocate and free](#memory) outside the lock.
//!
//! The wheel follows scheme 7 of Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP
//! 1987; IEEE/ACM Transactions on Networking 5(6), 1997).
//!
//! # Examples
//!
//! ```
//! use std::ops::ControlFlow;
//! use bounded_wheel::{Order, Wheel};
//!
//! // A tick is a millisecond here.
//! let mut wheel: Wheel<&str> = Wheel::new(0);
//! let read = wheel.insert(30_000, "read");
//! wheel.insert(60_000, "idle");
//! // Data arrived after 10 s, so the read has 30 s again.
//! wheel.reset(read, 40_000);
//!
//! let mut expired = Vec::new();
//! let mut now = 0;
//! while let Some(next) = wheel.next_expiration() {
//!     now = next; // A loop waits here, and then reads its clock.
//!     let mut steps = 128;
//!     let _ = wheel.advance(now, Order::Strict, &mut steps, |entry| {
//!         expired.push((now, entry.value));
//!         ControlFlow::Continue(())
//!     });
//! }
//! assert_eq!(expired, [(40_000, "read"), (60_000, "idle")]);
//! ```
//!
//! The example `poll_loop` is a server that closes connections when they time out.
//!
//! # The levels
//!
//! ```text
//!              now = tick 70: slot 6 of level 0, slot 1 of level 1, slot 0 of level 2
//!               |
//! level 0  slot 6   7   8  ...  63   0  ...  5   a slot = 1 tick       up to tick 133
//! level 1  slot 1   2   3  ...  63   0           a slot = 64 ticks     up to tick 4,159
//! level 2  slot 0   1   2  ...  62  63           a slot = 64^2 ticks   up to tick 262,143
//!   ...
//! level 10                                       a slot = 64^10 ticks
//!
//! insert(deadline 75)        75 - 70 < 64:               level 0, slot 75 % 64 = 11
//! insert(deadline 1,000)     1,000 / 64 - 70 / 64 < 64:  level 1, slot 1,000 / 64 = 15
//! cascade at tick 960        slot 15 of level 1 starts at 15 * 64 = 960. Its entries go to level 0
//! fire at tick 1,000         the entry is in slot 1,000 % 64 = 40 of level 0
//! ```
//!
//! With a tick of 1/64 ms, which `tokio-wheel` uses, the levels have these sizes:
//!
//! | level | a slot lasts | the level spans |
//! |------:|--------------|-----------------|
//! | 0     | 15.6 µs      | 1 ms            |
//! | 1     | 1 ms         | 64 ms           |
//! | 2     | 64 ms        | 4.1 s           |
//! | 3     | 4.1 s        | 4.4 min         |
//! | 4     | 4.4 min      | 4.7 h           |
//! | 5     | 4.7 h        | 12.4 days       |
//! | 6     | 12.4 days    | 2.2 years       |
//! | 7     | 2.2 years    | 139 years       |
//! | 8     | 139 years    | 8,900 years     |
//! | 9     | 8,900 years  | 571,000 years   |
//! | 10    | 571,000 years | the rest of the 64 bits of a tick |
//!
//! # Terms
//!
//! * A **tick** is the unit of time. [`Wheel::now`] is the tick that the wheel has reached.
//! * A **level** is an array of slots. A slot of level `k` spans `SLOTS^k` ticks.
//! * A **slot** is a list of entries. Its **start** is the first tick that it spans.
//! * The **deadline** of an entry is the tick at which the entry fires. If the wheel is not
//!   advanced at that tick, the entry fires at a later advance.
//! * To **cascade** an entry means to move it into a finer slot. The wheel does this when it
//!   reaches the start of the entry's slot.
//!
//! # The operations
//!
//! * **Insert** puts an entry into a slot. On each level, one slot contains `now` and one contains
//!   the deadline. The entry goes to the finest level on which these two slots are less than `SLOTS`
//!   apart.
//!   * Before: there is memory for one more entry, or the caller may allocate.
//!   * After: the slot starts at the deadline or before it. The slot starts after `now`, unless the
//!     entry is due.
//! * **Cascade** moves the entries of a coarse slot into finer slots.
//!   * Before: the start of the slot is reached.
//!   * After: each entry is in the slot where an insertion would put it now.
//! * **Fire** removes an entry and passes it to the caller.
//!   * Before: the wheel is advanced at least to the deadline of the entry.
//!   * After: the key of the entry is stale.
//!
//! An entry with a near deadline is therefore always in a fine slot. It never shares a coarse slot
//! with many entries that have later deadlines, and so never has to wait until all of them have cascaded.
//!
//! In a small geometry, a deadline can be beyond the top level. The entry then goes into the farthest
//! slot of the top level. When the wheel reaches that slot, it places the entry again.
//!
//! | State    | The entry is in                              | Removed from there by                        |
//! |----------|----------------------------------------------|----------------------------------------------|
//! | waiting  | a slot that starts after `now`               | `remove`, `reset`, `advance`             |
//! | reached  | a slot that starts at `now` or before        | `remove`, `reset`, `advance`             |
//! | backlog  | the backlog's ring for the level of its slot | `remove`, `reset`, `cascade_backlog`     |
//! | late     | the backlog's first ring                     | `remove`, `reset`, `advance`, which fires it first |
//!
//! The deadline of an entry may lie after the end of its slot, because [`Wheel::reset`] only stores
//! a later deadline. The entry moves when the wheel reaches its old slot.
//!
//! # What fires first
//!
//! [`Wheel::advance`] visits the slots one by one. The [`Order`] decides what happens to the
//! entries of each slot:
//!
//! * [`Order::Strict`] cascades or fires all entries of a slot before it reaches the next slot.
//!   Entries fire in the order of their deadlines. Entries with equal deadlines fire in the order
//!   of their insertion, even if they were on different levels. To keep this order, a cascade
//!   takes the entries of a slot from the last to the first. The cascade puts each entry before the
//!   entries that are already in the finer slot, because the entries in the finer slot were
//!   inserted later. A reset can move a deadline beyond the entry's slot. Such an entry counts as
//!   inserted when it cascades.
//! * [`Order::DueFirst`] fires the due entries of a fine slot, and moves all entries of a coarse
//!   slot to the *backlog* in one O(1) step. Afterwards, [`Wheel::cascade_backlog`] cascades the
//!   backlog in portions. A due entry therefore never waits for entries that only cascade. If an
//!   entry becomes due while it is on the backlog, it goes to the slot of `now` and fires at the
//!   next advance.
//!
//! With [`Order::DueFirst`], an advance can be interrupted before it has fired all due entries. The
//! remaining entries are *late*. They wait in the backlog's first ring, in the order of their
//! slots, and the next advance fires them first. Two entries in fine slots therefore fire in the
//! order of their deadlines, unless the deadlines differ by less than a slot of level 1. Late
//! entries do not stop the cascades: the owner keeps calling [`Wheel::cascade_backlog`].
//!
//! # Bounded work
//!
//! `advance` and `cascade_backlog` stop when they have used up their steps, even in the middle of a
//! slot. In strict order, the remaining entries stay in their slot.
//! [`Wheel::next_expiration`] then returns the start of this slot, which `now` has already reached.
//!
//! # Memory
//!
//! The wheel keeps its entries in chunks of 256, which never move. [`insert`](Wheel::insert) allocates a chunk if there
//! is no room, and [`free_unused`](Wheel::free_unused) frees the chunks that have become empty.
//!
//! An owner that keeps the wheel behind a lock should do neither under the lock, because an allocation may take
//! milliseconds:
//!
//! ```
//! use std::sync::Mutex;
//! use bounded_wheel::{Key, Refill, Wheel};
//!
//! fn insert(wheel: &Mutex<Wheel<u32>>, deadline: u64, value: u32) -> Key {
//!     loop {
//!         let mut locked = wheel.lock().unwrap();
//!         if locked.has_room() {
//!             return locked.insert_in_room(deadline, value);
//!         }
//!         let chunks = locked.chunks_wanted();
//!         drop(locked);
//!         let refill = Refill::allocate(chunks);
//!         let unused = wheel.lock().unwrap().refill(refill);
//!         drop(unused);
//!     }
//! }
//!
//! fn remove(wheel: &Mutex<Wheel<u32>>, key: Key) -> Option<u32> {
//!     let removed = wheel.lock().unwrap().remove(key)?;
//!     let unused = wheel.lock().unwrap().take_unused();
//!     drop(unused);
//!     Some(removed.value)
//! }
//!
//! let wheel = Mutex::new(Wheel::new(0));
//! let key = insert(&wheel, 10, 7);
//! assert_eq!(remove(&wheel, key), Some(7));
//! assert_eq!(remove(&wheel, key), None);
//! ```

// `assert_invariants` checks these rules, and the test `wheel_matches_oracle` calls it after every operation. The orders:
// `equal_deadlines_fire_in_the_order_of_insertion`, `fires_in_order_at_the_edges_of_every_level`,
// `late_entries_fire_in_the_order_of_their_deadlines`, `a_storm_that_cascades_keeps_nothing_waiting_that_is_due` and
// `a_late_storm_does_not_stop_the_cascades`.

mod advance;
mod key;
mod nodes;
#[cfg(all(any(test, fuzzing), not(tokio_wheel_loom)))]
#[allow(missing_docs, dead_code, reason = "for the tests and the fuzz target")]
pub mod oracle;
mod rings;
#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests;
mod tick;

pub use advance::Order;
pub use key::Key;
pub use nodes::{CHUNK, Nodes, Refill, Removed};
pub use tick::{COARSE_FROM, FINE_TO, NEVER, Tick};

use std::mem;

use rings::{Ring, Rings};

/// A hierarchical timing wheel of `T`, with `ROWS - 1` levels of `SLOTS` slots.
///
/// The last row is the backlog. The backlog has one ring for late entries, and one ring for each
/// level above level 0. Entries are linked into these rings in the same way as into slots.
///
/// The default geometry resolves all 64 bits of a tick, so no deadline is beyond the top level. A smaller one, such as 2
/// levels of 4 slots, is useful for tests.
///
/// # Examples
///
/// ```
/// use bounded_wheel::Wheel;
///
/// let mut wheel: Wheel<&str> = Wheel::new(0);
/// let key = wheel.insert(30_000, "read");
/// assert_eq!(wheel.get(key), Some(&"read"));
///
/// let mut small: Wheel<&str, 3, 4> = Wheel::new(0);
/// small.insert(1_000, "beyond the top level");
/// assert_eq!(small.len(), 1);
/// ```
pub struct Wheel<T, const ROWS: usize = 12, const SLOTS: usize = 64> {
    /// The tick that the wheel has reached.
    now: Tick,
    /// The entries, in chunks.
    nodes: Nodes<T>,
    /// The slots and the backlog, as lists of entries, which take 6 KiB.
    rings: Box<Rings<ROWS, SLOTS>>,
}

impl<T, const ROWS: usize, const SLOTS: usize> Wheel<T, ROWS, SLOTS> {
    /// The maximum number of entries in a wheel.
    pub const MAX_ENTRIES: usize = nodes::MAX_ENTRIES;

    /// Creates an empty wheel that has reached the tick `now`, and allocates its slots (6 KiB).
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let wheel: Wheel<&str> = Wheel::new(100);
    /// assert_eq!((wheel.now(), wheel.len()), (100, 0));
    /// ```
    pub fn new(now: Tick) -> Self {
        Self {
            now,
            nodes: Nodes::new(),
            rings: Box::new(const { Rings::new() }),
        }
    }

    /// Returns the tick that the wheel has reached.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use bounded_wheel::{Order, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let flow = wheel.advance(50, Order::Strict, &mut 128, |_| ControlFlow::Continue(()));
    /// assert!(flow.is_continue());
    /// assert_eq!(wheel.now(), 50);
    /// ```
    #[inline]
    pub fn now(&self) -> Tick {
        self.now
    }

    /// Returns the number of entries.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// wheel.insert(10, "read");
    /// wheel.insert(20, "write");
    /// assert_eq!(wheel.len(), 2);
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.nodes.len
    }

    /// Returns whether there is no entry.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// assert!(wheel.is_empty());
    /// wheel.insert(10, "read");
    /// assert!(!wheel.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries for which there is memory.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{CHUNK, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// assert_eq!(wheel.capacity(), 0);
    /// wheel.insert(10, "read");
    /// assert_eq!(wheel.capacity(), CHUNK);
    /// ```
    pub fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Returns whether there is room for the next insertion.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{Refill, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// assert!(!wheel.has_room());
    /// drop(wheel.refill(Refill::allocate(wheel.chunks_wanted())));
    /// assert!(wheel.has_room());
    /// ```
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.nodes.has_room()
    }

    /// Returns the number of chunks to pass to [`Refill::allocate`] for the next refill.
    ///
    /// # Panics
    ///
    /// Panics if the wheel has [`MAX_ENTRIES`](Self::MAX_ENTRIES) entries.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{Refill, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let chunks = wheel.chunks_wanted();
    /// assert!(chunks > 0);
    /// drop(wheel.refill(Refill::allocate(chunks)));
    /// assert_eq!(wheel.chunks_wanted(), 0); // The lists have room for more chunks.
    /// ```
    pub fn chunks_wanted(&self) -> usize {
        self.nodes.chunks_wanted()
    }

    /// Adds the memory of a [`Refill`], and returns memory that is not needed, for the caller to drop.
    ///
    /// Afterwards, the wheel has room, unless others have already filled it.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{CHUNK, Refill, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// drop(wheel.refill(Refill::allocate(wheel.chunks_wanted())));
    /// assert_eq!(wheel.capacity(), CHUNK);
    /// assert!(wheel.has_room());
    /// wheel.insert_in_room(10, "read");
    /// ```
    pub fn refill(&mut self, refill: Refill<T>) -> impl Sized + use<T, ROWS, SLOTS> {
        self.nodes.refill(refill)
    }

    /// Returns whether there is memory that no entry uses.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{CHUNK, Wheel};
    ///
    /// let mut wheel: Wheel<u64> = Wheel::new(0);
    /// let keys: Vec<_> = (0..=CHUNK as u64).map(|n| wheel.insert(n, n)).collect();
    /// for key in &keys[..CHUNK] {
    ///     wheel.remove(*key);
    /// }
    /// assert!(wheel.has_unused()); // The first chunk is empty.
    /// ```
    #[inline]
    pub fn has_unused(&self) -> bool {
        self.nodes.has_unused()
    }

    /// Takes the memory of one chunk that no entry uses, for the caller to drop. Returns `None` if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{CHUNK, Wheel};
    ///
    /// let mut wheel: Wheel<u64> = Wheel::new(0);
    /// let keys: Vec<_> = (0..=CHUNK as u64).map(|n| wheel.insert(n, n)).collect();
    /// for key in &keys[..CHUNK] {
    ///     wheel.remove(*key);
    /// }
    /// drop(wheel.take_unused());
    /// assert!(!wheel.has_unused());
    /// assert!(wheel.take_unused().is_none());
    /// ```
    pub fn take_unused(&mut self) -> Option<impl Sized + use<T, ROWS, SLOTS>> {
        self.nodes.take_unused()
    }

    /// Inserts an entry, and returns its key.
    ///
    /// An entry whose deadline is `now` or earlier is due at once. This method allocates if there is no
    /// [room](Self::has_room).
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// assert_eq!(wheel.deadline(key), Some(10));
    /// assert_eq!(wheel.next_expiration(), Some(10));
    /// ```
    #[inline]
    pub fn insert(&mut self, deadline: Tick, value: T) -> Key {
        while !self.has_room() {
            drop(self.refill(Refill::allocate(self.chunks_wanted())));
        }
        self.insert_in_room(deadline, value)
    }

    /// Inserts an entry without allocating memory, and returns its key.
    ///
    /// # Panics
    ///
    /// May panic unless [`has_room`](Self::has_room) has returned `true` since the last change of the wheel.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{Refill, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// drop(wheel.refill(Refill::allocate(wheel.chunks_wanted())));
    /// assert!(wheel.has_room());
    /// let key = wheel.insert_in_room(10, "read");
    /// assert_eq!(wheel.get(key), Some(&"read"));
    /// ```
    #[inline]
    pub fn insert_in_room(&mut self, deadline: Tick, value: T) -> Key {
        let slot = self.place(deadline);
        let links = self.rings.links_of_last(slot);
        let key = self.nodes.insert(value, deadline, links);
        let index = key.index();
        self.rings.push_last(&mut self.nodes, slot, index, links);
        key
    }

    /// Returns the slot where an entry with this deadline belongs at the tick `now`.
    #[inline]
    fn place(&self, deadline: Tick) -> Ring {
        Rings::<ROWS, SLOTS>::place(self.now, deadline)
    }

    /// Removes an entry and returns it, or returns `None` if the key is stale.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// let removed = wheel.remove(key).unwrap();
    /// assert_eq!((removed.deadline, removed.value), (10, "read"));
    /// assert!(wheel.remove(key).is_none());
    /// ```
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<Removed<T>> {
        self.nodes.find(key)?;
        Some(self.remove_at(key.index()))
    }

    /// Removes the entry at `index`, which must exist.
    #[inline]
    fn remove_at(&mut self, index: u32) -> Removed<T> {
        let node = self.nodes.remove(index);
        self.rings.unlink(&mut self.nodes, node.links);
        Removed {
            key: node.key(index),
            deadline: node.deadline,
            value: node.value.expect("an entry has a value"),
        }
    }

    /// Stores a new deadline without moving the entry, unless the deadline is earlier than the old one.
    ///
    /// Returns whether the deadline was stored, or `None` if the key is stale.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// assert_eq!(wheel.postpone(key, 20), Some(true));
    /// assert_eq!(wheel.postpone(key, 15), Some(false));
    /// assert_eq!(wheel.deadline(key), Some(20));
    ///
    /// wheel.remove(key);
    /// assert_eq!(wheel.postpone(key, 30), None);
    /// ```
    #[inline]
    pub fn postpone(&mut self, key: Key, deadline: Tick) -> Option<bool> {
        let node = self.nodes.find_mut(key)?;
        let is_later = deadline >= node.deadline;
        if is_later {
            node.deadline = deadline;
        }
        Some(is_later)
    }

    /// Changes the deadline of an entry, and returns whether the entry exists.
    ///
    /// A later deadline is only stored. An earlier deadline moves the entry to another slot.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// assert!(wheel.reset(key, 5));
    /// assert_eq!(wheel.next_expiration(), Some(5));
    ///
    /// wheel.remove(key);
    /// assert!(!wheel.reset(key, 20));
    /// ```
    #[inline]
    pub fn reset(&mut self, key: Key, deadline: Tick) -> bool {
        let Some(node) = self.nodes.find_mut(key) else {
            return false;
        };
        let later = deadline >= node.deadline;
        node.deadline = deadline;
        if !later {
            self.relink(key.index());
        }
        true
    }

    /// Moves an entry to the end of the slot where its deadline belongs.
    fn relink(&mut self, index: u32) {
        let node = self.nodes.node(index);
        let (deadline, links) = (node.deadline, node.links);
        self.rings.unlink(&mut self.nodes, links);
        let slot = self.place(deadline);
        let links = self.rings.links_of_last(slot);
        self.nodes.node_mut(index).links = links;
        self.rings.push_last(&mut self.nodes, slot, index, links);
    }

    /// Returns the key of the entry at `index`.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// assert_eq!(wheel.key(key.index()), key);
    /// ```
    #[inline]
    pub fn key(&self, index: u32) -> Key {
        self.nodes.node(index).key(index)
    }

    /// Returns the value of an entry, or `None` if the key is stale.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// assert_eq!(wheel.get(key), Some(&"read"));
    /// wheel.remove(key);
    /// assert_eq!(wheel.get(key), None);
    /// ```
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.nodes.find(key)?.value.as_ref()
    }

    /// Returns a mutable reference to the value of an entry, or `None` if the key is stale.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// *wheel.get_mut(key).unwrap() = "write";
    /// assert_eq!(wheel.get(key), Some(&"write"));
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.nodes.find_mut(key)?.value.as_mut()
    }

    /// Returns the deadline of an entry, or `None` if the key is stale.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// assert_eq!(wheel.deadline(key), Some(10));
    /// wheel.reset(key, 20);
    /// assert_eq!(wheel.deadline(key), Some(20));
    /// ```
    #[inline]
    pub fn deadline(&self, key: Key) -> Option<Tick> {
        Some(self.nodes.find(key)?.deadline)
    }

    /// Returns the keys, deadlines and values of the entries in one chunk of memory, or `None` if there are fewer chunks.
    ///
    /// A chunk has at most [`CHUNK`] entries, and an entry stays in its chunk as long as it is in the wheel. If the wheel is behind
    /// a lock, you can read all entries this way and hold the lock for one chunk at a time.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{CHUNK, Wheel};
    ///
    /// let mut wheel: Wheel<u64> = Wheel::new(0);
    /// (0..1_000).for_each(|n| drop(wheel.insert(n, n)));
    /// let chunks: Vec<_> = (0..).map_while(|n| Some(wheel.chunk(n)?.count())).collect();
    /// assert_eq!(chunks.iter().sum::<usize>(), 1_000);
    /// assert!(chunks.iter().all(|entries| *entries <= CHUNK));
    /// ```
    pub fn chunk(&self, number: usize) -> Option<impl Iterator<Item = (Key, Tick, &T)>> {
        self.nodes.chunk(number)
    }

    /// Removes every entry and drops its value. The keys of these entries become stale.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// wheel.clear();
    /// assert!(wheel.is_empty());
    /// assert_eq!(wheel.get(key), None);
    /// ```
    pub fn clear(&mut self) {
        let chunks = (0..).map_while(|number| self.chunk(number));
        let keys: Vec<_> = chunks.flatten().map(|(key, ..)| key).collect();
        keys.into_iter().for_each(|key| drop(self.remove(key)));
    }

    /// Frees unused memory, but keeps enough for `keep` entries.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{CHUNK, Wheel};
    ///
    /// let mut wheel: Wheel<u64> = Wheel::new(0);
    /// let keys: Vec<_> = (0..=CHUNK as u64).map(|n| wheel.insert(n, n)).collect();
    /// for key in &keys[..CHUNK] {
    ///     wheel.remove(*key);
    /// }
    /// assert_eq!(wheel.capacity(), 2 * CHUNK);
    /// wheel.free_unused(CHUNK);
    /// assert_eq!(wheel.capacity(), CHUNK);
    /// ```
    #[inline]
    pub fn free_unused(&mut self, keep: usize) {
        while self.nodes.has_unused() && self.nodes.capacity() >= keep.saturating_add(CHUNK) {
            drop(self.nodes.take_unused());
        }
    }

    /// Frees all memory that holds no entry.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let key = wheel.insert(10, "read");
    /// wheel.remove(key);
    /// assert!(wheel.capacity() > 0);
    /// wheel.shrink_to_fit();
    /// assert_eq!(wheel.capacity(), 0);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.nodes.close_empty();
        self.free_unused(0);
    }

    /// Removes all entries, and returns them for the caller to drop.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::Wheel;
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// wheel.insert(10, "read");
    /// let entries = wheel.take();
    /// assert!(wheel.is_empty());
    /// assert_eq!(entries.into_values().collect::<Vec<_>>(), ["read"]);
    /// ```
    pub fn take(&mut self) -> Nodes<T> {
        *self.rings = const { Rings::new() };
        mem::replace(&mut self.nodes, Nodes::new())
    }
}

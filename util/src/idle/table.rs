//! A hash table in which each operation moves only a few records, however many records the table
//! has.
//!
//! A `hashbrown` table moves all its records when an insertion finds no space. This table moves its
//! records to a new table step by step. During the move, a lookup searches both tables.
//!
//! Allocating or freeing a large table also takes long. So the caller allocates the new table while
//! it does not hold its lock. When the old table is empty, [`step`](Table::step) returns the old
//! table. The caller frees the old table after it has released its lock.
//!
//! # Rules for the caller
//!
//! * Before each insertion, call [`begin`](Table::begin) if the table [lacks
//!   room](Table::lacks_room).
//! * After each removal, call `begin` if the table [is sparse](Table::is_sparse).
//! * Before each operation, call [`step`](Table::step) if records move.
//!
//! # Invariants
//!
//! These invariants hold after every operation. `assert_invariants` checks them. The test
//! `a_table_is_as_a_map` calls `assert_invariants`.
//!
//! * During a move, slot `left` of the old table and all later slots are empty.
//! * During a move, the new table has room for all records that have not moved yet. It also has
//!   room for one insertion for each remaining step. The *room* of a table is the number of
//!   insertions that it accepts without a move of its records.
//!
//! The second invariant holds at the beginning of a move (`a_move_has_room_from_its_beginning`).
//! The new table has room for twice as many records as the old table has. It also has room for at
//! least one record for each 8 slots of the old table. A move has one step for each 64 slots of the
//! old table. Later operations keep the second invariant:
//!
//! * A step uses only the room for the records that it moves.
//! * A step comes before each insertion. The insertion uses the room that belonged to this step.
//! * A removal uses no room.
//!
//! After a move, about half of the new table is free. So the table accepts many insertions before
//! it lacks room again. On average, an insertion moves only a few records
//! (`no_operation_moves_many_records`).

use std::mem;

use hashbrown::{HashTable, hash_table::OccupiedEntry};

/// The number of slots that a step empties. A step takes a few µs.
///
/// While a sparse table moves, each removal makes a step. So the move ends before a quarter of the
/// records are removed.
const STEP: usize = 64;

/// A table with this number of slots, or fewer slots, does not shrink.
pub(super) const LITTLE: usize = 256;

/// A record that can return its hash.
pub(super) trait Hashed {
    fn hash(&self) -> u64;
}

/// A hash table that moves its records step by step.
pub(super) struct Table<T> {
    current: HashTable<T>,
    /// The table from which records move. While no records move, it has no memory.
    old: HashTable<T>,
    /// The number of slots of the old table that steps must still empty. These are the first slots
    /// of the old table. The number is 0 while no records move.
    left: usize,
}

impl<T: Hashed> Table<T> {
    pub(super) const fn new() -> Self {
        Self {
            current: HashTable::new(),
            old: HashTable::new(),
            left: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.current.len() + self.old.len()
    }

    #[inline]
    pub(super) fn find(
        &mut self,
        hash: u64,
        mut is_it: impl FnMut(&T) -> bool,
    ) -> Option<OccupiedEntry<'_, T>> {
        match self.current.find_entry(hash, &mut is_it) {
            Ok(found) => Some(found),
            Err(_) if self.left == 0 => None,
            Err(_) => self.old.find_entry(hash, is_it).ok(),
        }
    }

    /// Inserts a record. Does not check whether the table has an equal record.
    pub(super) fn insert(&mut self, record: T) {
        self.current.insert_unique(record.hash(), record, T::hash);
    }

    /// Returns whether records move to a new table.
    #[inline]
    pub(super) fn is_moving(&self) -> bool {
        self.left > 0
    }

    /// Returns the capacity for a new table if this table is full. Without a new table, the next
    /// insertion would move all records at once.
    pub(super) fn lacks_room(&self) -> Option<usize> {
        let full = self.current.len() == self.current.capacity();
        (full && !self.is_moving()).then(|| self.wanted())
    }

    /// Returns the capacity of a smaller table, if less than a 16th of the slots have records.
    ///
    /// The smaller table has a quarter of the slots. The table keeps this size until one of two
    /// events: three quarters of its records are removed, or the number of its records has tripled.
    pub(super) fn is_sparse(&self) -> Option<usize> {
        let places = self.current.num_buckets();
        let sparse = places > LITTLE && self.current.len() < places / 16;
        (sparse && !self.is_moving()).then(|| self.wanted())
    }

    fn wanted(&self) -> usize {
        2 * (self.current.len())
            .max(self.current.num_buckets() / 16)
            .max(2)
    }

    /// Begins to move the records to `new`, an empty table that has at least the wanted capacity.
    pub(super) fn begin(&mut self, new: HashTable<T>) {
        debug_assert!(!self.is_moving() && new.is_empty() && new.capacity() >= self.wanted());
        self.left = self.current.num_buckets();
        self.old = mem::replace(&mut self.current, new);
    }

    /// Moves a few records, if a move is under way. The last step of a move returns the old table,
    /// which is then empty.
    #[cold]
    pub(super) fn step(&mut self) -> Option<HashTable<T>> {
        let end = self.left;
        self.left = end.saturating_sub(STEP);
        for place in self.left..end {
            if let Ok(entry) = self.old.get_bucket_entry(place) {
                let (record, _) = entry.remove();
                self.current.insert_unique(record.hash(), record, T::hash);
            }
        }
        (end > 0 && self.left == 0).then(|| mem::take(&mut self.old))
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use std::{cell::Cell, collections::BTreeSet, ops::Range};

    use proptest::{collection::vec, prelude::*};

    use super::*;

    thread_local! {
        /// The number of calls of [`Hashed::hash`]. Each insertion calls it once, and each move of
        /// a record calls it once.
        static HASHED: Cell<usize> = const { Cell::new(0) };
    }

    /// A record that has the same hash as three other records.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Number(u32);

    impl Hashed for Number {
        fn hash(&self) -> u64 {
            HASHED.set(HASHED.get() + 1);
            hash(self.0)
        }
    }

    fn hash(number: u32) -> u64 {
        u64::from(number / 4).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    impl<T> Table<T> {
        pub(in super::super) fn places(&self) -> usize {
            let old = match self.left {
                0 => 0,
                _ => self.old.num_buckets(),
            };
            self.current.num_buckets() + old
        }

        pub(in super::super) fn iter(&self) -> impl Iterator<Item = &T> {
            self.current.iter().chain(self.old.iter())
        }
    }

    impl Table<Number> {
        fn assert_invariants(&self) {
            let room = self.current.capacity() - self.current.len();
            if self.is_moving() {
                let steps = self.left.div_ceil(STEP);
                assert!(room >= self.old.len() + steps);
                let mut emptied = self.left..self.old.num_buckets();
                assert!(emptied.all(|place| self.old.get_bucket(place).is_none()));
            } else {
                assert_eq!(self.old.allocation_size(), 0);
            }
        }

        fn prepare(&mut self, wants: impl Fn(&Self) -> Option<usize>) {
            drop(self.step());
            if let Some(capacity) = wants(self) {
                self.begin(HashTable::with_capacity(capacity));
                drop(self.step());
            }
        }

        fn add(&mut self, number: u32) {
            self.prepare(Self::lacks_room);
            self.insert(Number(number));
        }

        fn remove(&mut self, number: u32) -> bool {
            self.prepare(Self::is_sparse);
            let entry = self.find(hash(number), |other| other.0 == number);
            let removed = entry.map(|entry| entry.remove().0);
            removed == Some(Number(number))
        }
    }

    fn numbers() -> impl Strategy<Value = Range<u32>> {
        (0..4_000_u32, 0..1_500_u32).prop_map(|(start, len)| start..start + len)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_table_is_as_a_map(ops in vec((any::<bool>(), numbers()), 1..24)) {
            let mut table = Table::new();
            let mut model = BTreeSet::new();
            for (adds, numbers) in ops {
                for number in numbers {
                    let is_it = |other: &Number| other.0 == number;
                    let present = table.find(hash(number), is_it).is_some();
                    prop_assert_eq!(present, model.contains(&number));
                    if adds && !present {
                        table.add(number);
                        model.insert(number);
                    } else if !adds {
                        prop_assert_eq!(table.remove(number), model.remove(&number));
                    }
                    prop_assert_eq!(table.len(), model.len());
                    table.assert_invariants();
                }
            }
            prop_assert_eq!(table.iter().count(), model.len());
            let records: BTreeSet<_> = table.iter().map(|number| number.0).collect();
            prop_assert_eq!(records, model);
        }
    }

    /// Counts the moved records while the table grows, while it keeps its size, and while it
    /// shrinks.
    #[test]
    fn no_operation_moves_many_records() {
        const MANY: u32 = 30_000;
        let mut table = Table::new();
        let (mut most, mut all, mut moving) = (0, 0, 0);
        let mut count = |table: &Table<Number>, inserted| {
            let moved = HASHED.take() - inserted;
            most = most.max(moved);
            all += moved;
            moving += usize::from(table.is_moving());
        };
        HASHED.take();
        for number in 0..MANY {
            table.add(number);
            count(&table, 1);
        }
        for number in 0..10 * MANY {
            table.add(MANY + number);
            count(&table, 1);
            assert!(table.remove(number));
            count(&table, 0);
        }
        for number in 10 * MANY..11 * MANY {
            assert!(table.remove(number));
            count(&table, 0);
        }
        assert!((STEP / 2..=STEP).contains(&most), "{most}");
        assert!(
            moving > 1_000,
            "only {moving} operations were made during a move"
        );
        // There are 22 * MANY operations.
        assert!(all < 22 * MANY as usize, "{all}");
        assert!(table.places() <= LITTLE);
    }

    /// Checks the room at the beginning of a move, for tables of many sizes.
    #[test]
    fn a_move_has_room_from_its_beginning() {
        for capacity in [0, 3, 7, 14, 28, 200, 10_000] {
            for len in (0..=capacity).step_by(1 + capacity / 50) {
                let mut table = Table::new();
                table.current = HashTable::with_capacity(capacity);
                (0..len as u32).for_each(|number| table.insert(Number(number)));
                table.begin(HashTable::with_capacity(table.wanted()));
                table.assert_invariants();
            }
        }
    }

    /// A move ends after enough steps, even if no operation inserts or removes a record. Touches
    /// make such steps.
    #[test]
    fn steps_alone_end_a_move() {
        let mut table = Table::new();
        let mut next = 0..;
        while !table.is_moving() || table.len() < 10_000 {
            table.add(next.next().unwrap());
        }
        let steps = table.places() / STEP;
        let emptied = (0..steps).find_map(|_| table.step()).unwrap();
        assert!(emptied.is_empty());
        assert!(!table.is_moving() && table.step().is_none());
        assert_eq!(table.len(), table.current.len());
    }
}

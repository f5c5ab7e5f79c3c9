//! A hash table in which no operation moves more than a few records, however many there are.
//!
//! A `hashbrown` table moves all its records within the one insertion that finds no room: to a
//! table twice as large, or to other places if removed records have used up too many. Here they
//! move to a new table bit by bit. While that lasts, a record is looked up in both tables.
//!
//! Allocating and freeing a large table takes long as well, so neither happens here: the caller
//! gives the new table and gets the old one back when it is empty, and does both without its lock.
//!
//! # Rules for the caller
//!
//! * Before each insertion: [`begin`](Table::begin), if the table [lacks
//!   room](Table::lacks_room), and then [`step`](Table::step), if records move.
//! * From time to time, `begin` if the table [is sparse](Table::is_sparse), and `step`.
//!
//! # Invariants
//!
//! After every operation (`assert_invariants`, which `a_table_is_as_a_map` calls):
//!
//! * While records move, the old table has none in the places before `next`.
//! * The new table has room for all records that have yet to move, and for one insertion per step
//!   that is left. Room is what it takes without moving any record itself.
//!
//! The second invariant holds at the beginning: the new table is made for twice as many records as
//! there are, and at least an 8th of the old places; a 64th of these is the number of steps
//! (`a_move_has_room_from_its_beginning`). It goes on to hold: a step uses the room of those that it
//! moves, an insertion that of the step before it, and a removal uses none.
//!
//! Half of what the new table is made for, less one insertion per step, can be inserted before it
//! lacks room in turn. So an insertion moves a few records in the mean as well as at the most
//! (`no_operation_moves_many_records`).

use hashbrown::{HashTable, hash_table::OccupiedEntry};

/// Places that a step empties, in a few µs. A table that is sparse has moved before a quarter of
/// what is left is removed.
const STEP: usize = 64;

/// A table of so many places is not worth shrinking.
pub(super) const LITTLE: usize = 256;

/// A record, which has its hash.
pub(super) trait Hashed {
    fn hash(&self) -> u64;
}

/// Records by their hash.
pub(super) struct Table<T> {
    current: HashTable<T>,
    /// If records move: where they come from.
    old: Option<Old<T>>,
}

struct Old<T> {
    table: HashTable<T>,
    /// The place from which the next step goes on.
    next: usize,
}

impl<T: Hashed> Table<T> {
    pub(super) fn new() -> Self {
        Self {
            current: HashTable::new(),
            old: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.current.len() + self.old.as_ref().map_or(0, |old| old.table.len())
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        match self.current.find(hash, &mut is_it) {
            None => self.old.as_ref()?.table.find(hash, is_it),
            found => found,
        }
    }

    #[inline]
    pub(super) fn find_mut(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        Some(self.find_entry(hash, is_it)?.into_mut())
    }

    /// Finds a record that may be removed.
    #[inline]
    pub(super) fn find_entry(
        &mut self,
        hash: u64,
        mut is_it: impl FnMut(&T) -> bool,
    ) -> Option<OccupiedEntry<'_, T>> {
        match self.current.find_entry(hash, &mut is_it) {
            Ok(found) => Some(found),
            Err(_) => self.old.as_mut()?.table.find_entry(hash, is_it).ok(),
        }
    }

    /// Inserts a record, whether or not there is one like it.
    pub(super) fn insert(&mut self, record: T) {
        self.current.insert_unique(record.hash(), record, T::hash);
    }

    /// Whether records move to a new table.
    #[inline]
    pub(super) fn is_moving(&self) -> bool {
        self.old.is_some()
    }

    /// If the next insertion would move all records: the capacity of a new table for them.
    pub(super) fn lacks_room(&self) -> Option<usize> {
        let full = self.current.len() == self.current.capacity();
        (full && !self.is_moving()).then(|| self.wanted())
    }

    /// If there are very few records for the places: the capacity of a new table for them, which is
    /// a quarter as large. Before the next one, three quarters of the records are removed, or three
    /// times as many inserted.
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

    /// Begins to move the records to an empty table of the capacity that is wanted now.
    pub(super) fn begin(&mut self, new: HashTable<T>) {
        debug_assert!(!self.is_moving() && new.is_empty() && new.capacity() >= self.wanted());
        let table = std::mem::replace(&mut self.current, new);
        self.old = Some(Old { table, next: 0 });
    }

    /// Moves a few records, if records move. Returns the old table when that was the last step.
    #[cold]
    pub(super) fn step(&mut self) -> Option<HashTable<T>> {
        let old = self.old.as_mut()?;
        let places = old.table.num_buckets();
        let end = places.min(old.next + STEP);
        for place in old.next..end {
            if let Ok(entry) = old.table.get_bucket_entry(place) {
                let (record, _) = entry.remove();
                self.current.insert_unique(record.hash(), record, T::hash);
            }
        }
        old.next = end;
        if end < places {
            return None;
        }
        self.old.take().map(|old| old.table)
    }

    pub(super) fn into_records(self) -> impl Iterator<Item = T> {
        let old = self.old.map(|old| old.table);
        self.current.into_iter().chain(old.into_iter().flatten())
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::{cell::Cell, collections::BTreeSet, ops::Range};

    use proptest::{collection::vec, prelude::*};

    use super::*;

    thread_local! {
        /// How often a record was hashed: once when it is inserted, and once for each move.
        static HASHED: Cell<usize> = const { Cell::new(0) };
    }

    /// Has the hash of three others.
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
            let old = self.old.as_ref().map_or(0, |old| old.table.num_buckets());
            self.current.num_buckets() + old
        }

        pub(in super::super) fn iter(&self) -> impl Iterator<Item = &T> {
            let old = self.old.iter().flat_map(|old| old.table.iter());
            self.current.iter().chain(old)
        }
    }

    impl Table<Number> {
        fn assert_invariants(&self) {
            let room = self.current.capacity() - self.current.len();
            if let Some(old) = &self.old {
                let places = old.table.num_buckets();
                let steps = (places - old.next).div_ceil(STEP);
                assert!(steps > 0);
                assert!(room >= old.table.len() + steps);
                assert!((0..old.next).all(|place| old.table.get_bucket(place).is_none()));
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
            let entry = self.find_entry(hash(number), |other| other.0 == number);
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
                    let same = table.find_mut(hash(number), is_it).is_some();
                    prop_assert_eq!(same, present);
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
            let records: BTreeSet<_> = table.into_records().map(|number| number.0).collect();
            prop_assert_eq!(records, model);
        }
    }

    /// As a table grows, while records come and go in equal numbers, and as it drains.
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
        assert!(moving > 1_000, "there were {moving} operations meanwhile");
        // There are 22 times as many operations.
        assert!(all < 22 * MANY as usize, "{all}");
        assert!(table.places() <= LITTLE);
    }

    /// However few records a table has, and however much can be inserted while they move.
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

    /// A touch lets a move go on, so that it ends though nothing comes or goes.
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

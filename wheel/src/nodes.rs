//! The nodes of a wheel, in chunks.
//!
//! A chunk is a [`slab::Slab`] of at most [`CHUNK`] nodes. A node never moves. The slab crate keeps
//! the free list of a chunk and distinguishes vacant nodes from occupied nodes. This module keeps
//! the chunks.
//!
//! # This module neither allocates nor frees memory
//!
//! A wheel may be behind a lock, and an allocation can take a long time. For example, glibc's
//! `malloc` consolidates free blocks before it allocates a chunk, which takes milliseconds if many
//! small blocks were freed before. So the owner of the wheel allocates and frees while it holds
//! no lock (`neither_allocates_nor_frees`):
//!
//! * An insertion needs [room](Nodes::has_room). If there is no room, the owner allocates a
//!   [`Refill`] and [passes it to the wheel](Nodes::refill).
//! * When the last node of a chunk is removed, the memory of the chunk becomes unused. The owner
//!   [takes](Nodes::take_unused) the unused memory and drops it.
//! * Insertions go to the open chunk. Only the open chunk keeps its memory while it is empty.
//!   Otherwise, if the number of entries varied around the size of a chunk, the owner would allocate
//!   and free the same memory repeatedly.
//!
//! If a refill brings longer lists, the module copies the old lists under the lock. The module
//! copies at most 104 bytes for every 256 nodes.

use std::{iter, mem, num::NonZeroU32};

use slab::Slab;

use crate::{key::Key, tick::Tick};

/// An entry that was removed from the wheel, or that has fired.
///
/// # Examples
///
/// ```
/// use bounded_wheel::{Removed, Wheel};
///
/// let mut wheel: Wheel<&str> = Wheel::new(0);
/// let key = wheel.insert(10, "read");
/// assert_eq!(wheel.remove(key), Some(Removed { key, deadline: 10, value: "read" }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed<T> {
    /// The key, which is now stale.
    pub key: Key,
    /// The deadline that the entry had.
    pub deadline: Tick,
    /// The value.
    pub value: T,
}

/// The number of entries in a chunk. 256 entries that hold a waker each take about 10 KiB.
// Tests, models and fuzzing use small chunks, so that they often fill a chunk and use the next one.
pub const CHUNK: usize = if cfg!(any(test, fuzzing, tokio_wheel_loom, tokio_wheel_util_loom)) {
    4
} else {
    256
};

/// The last stamp of a chunk. Tests and fuzzing use a small number, so that they reach it.
const LAST_STAMP: NonZeroU32 = if cfg!(any(test, fuzzing)) {
    NonZeroU32::new(48).unwrap()
} else {
    NonZeroU32::MAX
};

/// The maximum number of chunks in a wheel.
///
/// The index of a node does not use bit 31. In a link, bit 31 distinguishes rings from nodes.
const MAX_CHUNKS: usize = (1 << 31) / CHUNK;

/// The maximum number of entries in a wheel.
pub(super) const MAX_ENTRIES: usize = MAX_CHUNKS * CHUNK;

/// The number of chunks for which the first lists have room. This number is small, because each
/// chunk takes 104 bytes in the lists, and a wheel may stay small.
const FIRST_CHUNKS: usize = 2;

/// The value of `Nodes::open` when no chunk is open.
const NONE: usize = usize::MAX;

/// The value of `Chunk::place` when the chunk is not listed.
const UNLISTED: u32 = u32::MAX;

/// An entry with its links.
pub(super) struct Node<T> {
    /// The value, which is `None` only in a [blank](Self::BLANK) node.
    pub(super) value: Option<T>,
    pub(super) deadline: Tick,
    pub(super) links: Links,
    stamp: NonZeroU32,
}

impl<T> Node<T> {
    /// The content of a new place in the slab, before the entry is written there.
    const BLANK: Self = Self {
        value: None,
        deadline: 0,
        links: Links { prev: 0, next: 0 },
        stamp: NonZeroU32::MIN,
    };

    /// Returns the key of this entry, which is at `index`.
    #[inline]
    pub(super) fn key(&self, index: u32) -> Key {
        Key::new(index, self.stamp)
    }
}

/// The links of a node to the previous node and to the next node of its ring. At each end of the
/// list, the link leads to the ring itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) prev: u32,
    pub(super) next: u32,
}

/// The memory of a chunk.
type Memory<T> = Slab<Node<T>>;

/// The nodes of a chunk and its next stamp.
struct Chunk<T> {
    /// The nodes. The slab has no capacity while the chunk has no memory.
    nodes: Memory<T>,
    /// The stamp of the next node, or `None` when the stamps are used up.
    stamp: Option<NonZeroU32>,
    /// The position of this chunk in `Lists::with_room`, or [`UNLISTED`].
    place: u32,
}

impl<T> Chunk<T> {
    const fn new() -> Self {
        Self {
            nodes: Slab::new(),
            stamp: Some(NonZeroU32::MIN),
            place: UNLISTED,
        }
    }

    /// Returns whether the chunk accepts another node.
    #[inline]
    fn has_room(&self) -> bool {
        self.nodes.len() < CHUNK && self.stamp.is_some()
    }
}

/// The entries of a wheel, which [`Wheel::take`](crate::Wheel::take) returns.
#[repr(C)]
pub struct Nodes<T> {
    /// The number of entries.
    pub(super) len: usize,
    /// The index of the chunk that receives insertions, or [`NONE`]. This chunk has memory.
    open: usize,
    lists: Lists<T>,
    /// The number of chunks that have memory.
    in_memory: usize,
}

/// The lists of chunks and of unused memory.
///
/// Every list has at least the capacity of `chunks`, so no list ever grows by itself. Only a
/// [`Refill`] brings longer lists.
// The fields that every operation uses come first, next to each other.
#[repr(C)]
struct Lists<T> {
    chunks: Vec<Chunk<T>>,
    /// Memory that no chunk uses.
    unused: Vec<Memory<T>>,
    /// The chunks that have memory and room, except the open chunk, in no particular order.
    with_room: Vec<usize>,
    /// The chunks that have no memory and still have stamps.
    freed: Vec<usize>,
}

impl<T> Nodes<T> {
    pub(super) const fn new() -> Self {
        Self {
            len: 0,
            open: NONE,
            lists: Lists {
                chunks: Vec::new(),
                with_room: Vec::new(),
                freed: Vec::new(),
                unused: Vec::new(),
            },
            in_memory: 0,
        }
    }

    /// Returns whether there is room for the next insertion.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        match self.lists.chunks.get(self.open) {
            Some(chunk) if chunk.has_room() => true,
            _ => self.open_another(),
        }
    }

    /// Returns the number of chunks that the lists of the next [`Refill`] must be able to hold.
    /// Returns 0 if the current lists are long enough.
    pub(crate) fn chunks_wanted(&self) -> usize {
        let lists = &self.lists;
        let capacity = lists.chunks.capacity();
        let no_number = lists.freed.is_empty() && lists.chunks.len() == capacity;
        if !no_number && self.in_memory + lists.unused.len() < capacity {
            return 0;
        }
        assert!(
            capacity < MAX_CHUNKS,
            "a wheel must have at most {MAX_ENTRIES} entries",
        );
        (2 * capacity).clamp(FIRST_CHUNKS, MAX_CHUNKS)
    }

    /// Accepts a refill, and returns the memory that the owner must drop.
    pub(crate) fn refill(&mut self, refill: Refill<T>) -> impl Sized + use<T> {
        let Refill { memory, mut lists } = refill;
        if lists.chunks.capacity() > self.lists.chunks.capacity() {
            lists.chunks.append(&mut self.lists.chunks);
            lists.with_room.append(&mut self.lists.with_room);
            lists.freed.append(&mut self.lists.freed);
            lists.unused.append(&mut self.lists.unused);
            mem::swap(&mut self.lists, &mut lists);
        }
        let mut surplus = Some(memory);
        // In the meantime, other threads may have brought enough memory.
        if self.in_memory + self.lists.unused.len() < self.lists.chunks.capacity() {
            self.lists.unused.extend(surplus.take());
        }
        // Opens a chunk, if none has room. Otherwise another thread could find the new memory unused, and free it.
        self.has_room();
        (lists, surplus)
    }

    /// Returns memory that no chunk uses.
    #[inline]
    pub(crate) fn take_unused(&mut self) -> Option<impl Sized + use<T>> {
        self.lists.unused.pop()
    }

    /// Returns whether there is memory that no chunk uses.
    #[inline]
    pub(crate) fn has_unused(&self) -> bool {
        !self.lists.unused.is_empty()
    }

    /// Returns the number of entries for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        (self.in_memory + self.lists.unused.len()) * CHUNK
    }

    /// Inserts an entry with its links. There must be [room](Self::has_room).
    #[inline]
    pub(super) fn insert(&mut self, value: T, deadline: Tick, links: Links) -> Key {
        let chunk = &mut self.lists.chunks[self.open];
        let stamp = chunk.stamp.expect("there is room");
        chunk.stamp = stamp.checked_add(1).filter(|next| *next <= LAST_STAMP);
        // The insertion takes two steps. In a single step, this function would store the node as
        // single words, and then `Slab::insert` would load the node as pairs of words. The
        // processor cannot forward two separate stores to one load. With a single step, a
        // registration took 4 to 7 ns more, and 23 instructions fewer (`compare ops --workload
        // churn`).
        let local = chunk.nodes.insert(Node::BLANK);
        chunk.nodes[local] = Node {
            value: Some(value),
            deadline,
            links,
            stamp,
        };
        self.len += 1;
        Key::new((self.open * CHUNK + local) as u32, stamp)
    }

    /// Returns the entry that `key` names, or `None` if the key is stale.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<&Node<T>> {
        let chunk = self.lists.chunks.get(chunk_of(key.index()))?;
        let node = chunk.nodes.get(local_of(key.index()))?;
        (node.stamp.get() == key.stamp()).then_some(node)
    }

    /// Returns a mutable reference to the entry that `key` names, or `None` if the key is stale.
    #[inline]
    pub(super) fn find_mut(&mut self, key: Key) -> Option<&mut Node<T>> {
        let chunk = self.lists.chunks.get_mut(chunk_of(key.index()))?;
        let node = chunk.nodes.get_mut(local_of(key.index()))?;
        (node.stamp.get() == key.stamp()).then_some(node)
    }

    /// Removes the entry at `index`, which must exist. The caller closes the gap that the entry
    /// leaves in its ring.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> Node<T> {
        let number = chunk_of(index);
        let chunk = &mut self.lists.chunks[number];
        let was_full = chunk.nodes.len() == CHUNK;
        let node = chunk.nodes.remove(local_of(index));
        self.len -= 1;
        if number != self.open {
            let is_empty = chunk.nodes.is_empty();
            if was_full && chunk.has_room() {
                chunk.place = self.lists.with_room.len() as u32;
                self.lists.with_room.push(number);
            }
            if is_empty {
                self.free(number);
            }
        }
        node
    }

    /// Returns the node of an entry, which must exist.
    #[inline]
    pub(super) fn node(&self, index: u32) -> &Node<T> {
        &self.lists.chunks[chunk_of(index)].nodes[local_of(index)]
    }

    /// Returns a mutable reference to the node of an entry, which must exist.
    #[inline]
    pub(super) fn node_mut(&mut self, index: u32) -> &mut Node<T> {
        &mut self.lists.chunks[chunk_of(index)].nodes[local_of(index)]
    }

    /// Returns the entries of a chunk, if there is a chunk with this number.
    pub(super) fn chunk(&self, number: usize) -> Option<impl Iterator<Item = (Key, Tick, &T)>> {
        let nodes = self.lists.chunks.get(number)?.nodes.iter();
        Some(nodes.filter_map(move |(local, node)| {
            let key = node.key((number * CHUNK + local) as u32);
            Some((key, node.deadline, node.value.as_ref()?))
        }))
    }

    /// If the open chunk is empty, closes the chunk and makes its memory unused.
    pub(super) fn close_empty(&mut self) {
        let chunk = self.lists.chunks.get(self.open);
        if chunk.is_some_and(|chunk| chunk.nodes.is_empty()) {
            let open = mem::replace(&mut self.open, NONE);
            self.free(open);
        }
    }

    /// Returns the values of all entries, in no particular order.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        let nodes = self.lists.chunks.into_iter().flat_map(|chunk| chunk.nodes);
        nodes.filter_map(|(_, node)| node.value)
    }

    /// Opens another chunk that has room, and returns whether it found such a chunk. Prefers chunks
    /// that have memory.
    #[cold]
    #[inline(never)]
    fn open_another(&mut self) -> bool {
        let lists = &mut self.lists;
        if let Some(number) = lists.with_room.pop() {
            lists.chunks[number].place = UNLISTED;
            self.open(number);
            return true;
        }
        if lists.unused.is_empty() {
            return false;
        }
        if lists.freed.is_empty() && lists.chunks.len() < lists.chunks.capacity() {
            lists.freed.push(lists.chunks.len());
            lists.chunks.push(Chunk::new());
        }
        let Some(number) = lists.freed.pop() else {
            return false;
        };
        lists.chunks[number].nodes = lists.unused.pop().unwrap_or_default();
        self.in_memory += 1;
        self.open(number);
        true
    }

    /// Makes another chunk the open chunk.
    fn open(&mut self, number: usize) {
        // If the stamps of the old chunk are used up, the chunk may be empty. No later removal would
        // make its memory unused.
        self.close_empty();
        self.open = number;
    }

    /// Makes the memory of an empty chunk unused.
    #[cold]
    fn free(&mut self, number: usize) {
        let lists = &mut self.lists;
        let chunk = &mut lists.chunks[number];
        lists.unused.push(mem::take(&mut chunk.nodes));
        self.in_memory -= 1;
        if chunk.stamp.is_some() {
            lists.freed.push(number);
        }
        let place = mem::replace(&mut chunk.place, UNLISTED);
        if place != UNLISTED {
            lists.with_room.swap_remove(place as usize);
            if let Some(moved) = lists.with_room.get(place as usize) {
                lists.chunks[*moved].place = place;
            }
        }
    }
}

/// Memory for one more chunk, with longer lists if needed.
pub struct Refill<T> {
    memory: Memory<T>,
    lists: Lists<T>,
}

impl<T> Refill<T> {
    /// Allocates one chunk, and lists with a capacity of `chunks` chunks: see
    /// [`Wheel::chunks_wanted`](crate::Wheel::chunks_wanted).
    ///
    /// This function writes to all of this memory, because the system assigns a page when it is first written to, which should
    /// not happen under a lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use bounded_wheel::{CHUNK, Refill, Wheel};
    ///
    /// let mut wheel: Wheel<&str> = Wheel::new(0);
    /// let refill = Refill::allocate(wheel.chunks_wanted());
    /// drop(wheel.refill(refill));
    /// assert_eq!(wheel.capacity(), CHUNK);
    /// ```
    pub fn allocate(chunks: usize) -> Self {
        let last = CHUNK - 1;
        // The slab marks all places before the last place as vacant. So it writes to all places.
        let mut memory: Memory<T> = iter::once((last, Node::BLANK)).collect();
        memory.remove(last);
        Self {
            memory,
            lists: Lists {
                chunks: written(chunks, Chunk::new),
                with_room: written(chunks, || 0),
                freed: written(chunks, || 0),
                unused: written(chunks, Slab::new),
            },
        }
    }
}

/// Returns an empty list with room for `items` items. Writes to all memory of the list first.
fn written<I>(items: usize, item: impl FnMut() -> I) -> Vec<I> {
    let mut list: Vec<I> = iter::repeat_with(item).take(items).collect();
    list.clear();
    list
}

/// Returns which chunk contains the node at `index`.
#[inline]
fn chunk_of(index: u32) -> usize {
    index as usize / CHUNK
}

/// Returns the position of the node at `index` within its chunk.
#[inline]
fn local_of(index: u32) -> usize {
    index as usize % CHUNK
}

#[cfg(all(any(test, fuzzing), not(tokio_wheel_loom)))]
mod invariants {
    use super::*;

    impl<T> Nodes<T> {
        /// Asserts the rules that hold between any two operations.
        pub(crate) fn assert_invariants(&self) {
            let Lists {
                chunks,
                unused,
                with_room,
                freed,
            } = &self.lists;
            let (mut listed, mut is_freed) = (vec![0; chunks.len()], vec![0; chunks.len()]);
            with_room.iter().for_each(|number| listed[*number] += 1);
            freed.iter().for_each(|number| is_freed[*number] += 1);
            for (number, chunk) in chunks.iter().enumerate() {
                let (is_open, is_empty) = (number == self.open, chunk.nodes.is_empty());
                assert_eq!(
                    chunk.nodes.capacity() > 0,
                    is_open || !is_empty,
                    "chunk {number} is empty and has memory"
                );
                let has_room = !is_open && !is_empty && chunk.has_room();
                assert_eq!(listed[number], usize::from(has_room), "{number}");
                let place = with_room.get(chunk.place as usize);
                assert_eq!(place, has_room.then_some(&number));
                let can_be_opened = is_empty && !is_open && chunk.stamp.is_some();
                assert_eq!(is_freed[number], usize::from(can_be_opened), "{number}");
            }
            let len: usize = chunks.iter().map(|chunk| chunk.nodes.len()).sum();
            let in_memory = chunks.iter().filter(|chunk| chunk.nodes.capacity() > 0);
            assert_eq!((len, in_memory.count()), (self.len, self.in_memory));
            assert!(self.in_memory + unused.len() <= chunks.capacity());
            assert!(with_room.capacity() >= chunks.capacity());
            assert!(unused.capacity() >= chunks.capacity());
            assert!(freed.capacity() >= chunks.capacity());
        }
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    const LINKS: Links = Links { prev: 0, next: 0 };

    fn make_room(nodes: &mut Nodes<u32>) {
        while !nodes.has_room() {
            drop(nodes.refill(Refill::allocate(nodes.chunks_wanted())));
        }
    }

    fn fill(nodes: &mut Nodes<u32>, count: u32) -> Vec<Key> {
        let insert = |n| {
            make_room(nodes);
            nodes.insert(n, 0, LINKS)
        };
        (0..count).map(insert).collect()
    }

    #[test]
    fn stale_keys_never_alias() {
        let mut nodes = Nodes::new();
        let mut stale: Vec<Key> = Vec::new();
        // The rounds use up the stamps of chunks, and use chunks again after their memory was
        // freed.
        for round in 0..400 {
            let keys = fill(&mut nodes, 1 + round % 11);
            for key in &stale {
                assert!(
                    nodes.find(*key).is_none(),
                    "{key:?} names an entry again in round {round}"
                );
            }
            for key in &keys {
                assert!(nodes.find(*key).is_some());
                nodes.remove(key.index());
                assert!(nodes.find(*key).is_none());
                nodes.assert_invariants();
            }
            drop(nodes.take_unused());
            stale.extend(keys);
        }
        assert!(
            nodes.lists.chunks.len() > 8,
            "some chunks must use up their stamps"
        );
    }

    #[test]
    fn neither_allocates_nor_frees() {
        let mut nodes = Nodes::new();
        let memory = |nodes: &Nodes<u32>| {
            let Lists {
                chunks,
                unused,
                with_room,
                freed,
            } = &nodes.lists;
            let numbers = [with_room.capacity(), freed.capacity()];
            let capacities = (chunks.capacity(), unused.capacity(), numbers);
            (capacities, nodes.capacity())
        };
        let mut keys = Vec::new();
        for round in 0..3_000_u32 {
            // The number of keys grows and shrinks alternately. Some of the unused memory stays for
            // later rounds.
            if round % 300 < 200 {
                make_room(&mut nodes);
                let before = memory(&nodes);
                keys.push(nodes.insert(round, 0, LINKS));
                assert_eq!(
                    memory(&nodes),
                    before,
                    "an insertion of round {round} allocated"
                );
            } else {
                let before = memory(&nodes);
                for _ in 0..keys.len().min(3) {
                    let key = keys.swap_remove(round as usize * 7 % keys.len());
                    nodes.remove(key.index());
                    assert_eq!(memory(&nodes), before, "a removal of round {round} freed");
                }
                if round % 2 == 0 {
                    drop(nodes.take_unused());
                }
            }
            nodes.assert_invariants();
        }
        while nodes.take_unused().is_some() {}
        assert!(nodes.lists.chunks.len() > 8 && nodes.in_memory <= 1);
    }

    /// Chunks that have memory are used first. A chunk without memory is used last, even if it was
    /// emptied most recently.
    #[test]
    fn room_in_memory_is_used_first() {
        let mut nodes = Nodes::new();
        let keys = fill(&mut nodes, CHUNK as u32 * 4);
        nodes.remove(keys[0].index());
        for key in &keys[CHUNK..2 * CHUNK] {
            nodes.remove(key.index());
        }
        drop(nodes.take_unused());
        assert!(nodes.has_room(), "chunk 0 must have room");
        nodes.insert(0, 0, LINKS);
        assert!(!nodes.has_room());
        assert_eq!(nodes.capacity(), 3 * CHUNK);
        nodes.assert_invariants();
    }

    /// A chunk that becomes empty leaves the list of chunks with room, so that no later insertion has to skip it.
    #[test]
    fn no_list_keeps_the_numbers_of_chunks_that_became_empty() {
        let mut nodes = Nodes::new();
        let keys = fill(&mut nodes, CHUNK as u32 * 100);
        // Every other chunk keeps an entry.
        let (kept, removed): (Vec<Key>, Vec<Key>) = keys
            .into_iter()
            .partition(|key| key.index() as usize % (2 * CHUNK) == 1);
        for key in removed {
            nodes.remove(key.index());
            nodes.assert_invariants();
        }
        assert_eq!(nodes.lists.with_room.len(), kept.len());
        for key in kept {
            nodes.remove(key.index());
            nodes.assert_invariants();
        }
        assert!(nodes.lists.with_room.is_empty());
    }

    /// Promise 13 allows 80 bytes for a pending sleep. The node takes 40 bytes, and the future
    /// takes 32 bytes. So 8 bytes are left for the allocator's overhead.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_waker_takes_40_bytes() {
        // The slab stores each node in its type `Entry`. The tag of an `Entry` takes no more room
        // than the tag of an `Option`.
        assert_eq!(size_of::<Option<Node<std::task::Waker>>>(), 40);
    }

    /// The head of this module and SECURITY.md say how much a refill copies.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_chunk_takes_104_bytes_in_the_lists() {
        let numbers = 2 * size_of::<usize>();
        let in_lists = size_of::<Chunk<u64>>() + size_of::<Memory<u64>>() + numbers;
        assert_eq!(in_lists, 104);
    }

    #[test]
    fn memory_is_unused_chunk_by_chunk() {
        let mut nodes = Nodes::new();
        let keys = fill(&mut nodes, CHUNK as u32 * 8);
        assert_eq!(nodes.in_memory, 8);
        for (removed, key) in keys.iter().enumerate() {
            nodes.remove(key.index());
            let full = 8 - (removed + 1) / CHUNK;
            assert_eq!(nodes.in_memory, full.max(1));
        }
        nodes.close_empty();
        assert_eq!(nodes.in_memory, 0);
        nodes.assert_invariants();
    }

    #[test]
    fn the_absent_key_is_absent() {
        let mut nodes = Nodes::new();
        fill(&mut nodes, 100);
        assert!(nodes.find(Key::ABSENT).is_none() && nodes.find(Key::VACANT).is_none());
    }
}

//! The nodes of a wheel: a generational slab that grows and shrinks by chunks.
//!
//! A `Vec` that doubles would copy every node while a lock is held and would never give memory
//! back. Here nodes live in chunks of [`CHUNK`]; a node never moves, growing allocates one chunk,
//! and a chunk's memory goes back to the allocator when its last node is removed. Only the chunk that is
//! open for insertion stays, so that a population which hovers around a chunk's edge does not
//! allocate and free at every step, and what was reserved.
//!
//! To allocate and to free can take long: glibc's `malloc` of a chunk tidies up first, which was seen
//! to take 5 ms after 100,000 small blocks were freed, and `free` may give pages back. So who has the
//! slab behind a lock [defers](Slab::deferring) both to where the lock is not held: looks whether there
//! is [room](Slab::has_room) before each insertion, and else [supplies](Slab::supply) some, and takes
//! what is [spare](Slab::take_spare) after each removal (`a_deferring_slab_neither_allocates_nor_frees`).
//! What is left to do under the lock, when the list of chunks is full, is to copy it to a longer one: 32
//! bytes for 256 nodes, so some 30 µs at a million.
//!
//! # Keys never alias
//!
//! Every node carries a generation that rises when its entry is removed, and a [`Key`] names
//! index and generation. Two cases need care, since a generation has 32 bits:
//!
//! * A node whose last generation is used up is *retired*: it is never handed out again. A slot
//!   that is reused twenty million times a second retires once in 200 seconds, at the price of
//!   one node.
//! * A chunk that is freed and later allocated anew starts above every generation that it has
//!   handed out (`floor`). If there is hardly one left, the chunk is abandoned: its index is not
//!   used again.
//!
//! Tests: `stale_keys_never_alias`, `generations_survive_a_freed_chunk`,
//! `a_used_up_node_is_retired`.

use std::num::NonZeroU32;

use super::tick::Tick;

/// Nodes in a chunk: about 10 KiB of wakers. Small in tests, models and fuzzing, so that they
/// cross the edges of chunks all the time.
pub(crate) const CHUNK: usize = if cfg!(any(test, fuzzing, tokio_wheel_loom)) {
    4
} else {
    256
};

/// The generation after which a node is retired. Small in tests and fuzzing, so that they get
/// there.
const LAST_GENERATION: u32 = if cfg!(any(test, fuzzing)) {
    12
} else {
    u32::MAX
};

/// The most chunks a slab may have, so that a node's index stays below the bits which the wheel
/// uses to tell links to nodes from links to slots.
const MAX_CHUNKS: usize = (1 << 31) / CHUNK;

/// The most entries a slab can hold.
pub(super) const MAX_ENTRIES: usize = MAX_CHUNKS * CHUNK;

/// The chunks that the lists of a slab have room for at first, where its memory is supplied.
const FIRST_CHUNKS: usize = if cfg!(any(test, fuzzing)) { 2 } else { 16 };

/// Ends a list of vacant nodes.
const NIL: u32 = u32::MAX;

/// The generation of a retired node, which no key has.
const RETIRED: u32 = 0;

/// Names one entry of one wheel, for ever: the key of an entry that is gone names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: NonZeroU32,
}

impl Key {
    /// A key that names no entry of any wheel.
    pub(crate) const ABSENT: Self = Self {
        index: NIL,
        generation: NonZeroU32::MIN,
    };

    /// Where the entry is, if it is there at all.
    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.index
    }
}

/// An entry with its links, or a vacant place.
pub(super) struct Node<T> {
    /// `None` in a vacant node.
    pub(super) value: Option<T>,
    pub(super) deadline: Tick,
    pub(super) links: Links,
    /// Of the key of this entry, or of the next entry to come.
    generation: u32,
}

/// Where a node is in the list of its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    /// The node before this one, or the slot itself (see `wheel`).
    pub(super) prev: u32,
    /// The node after it, or the slot; in a vacant node, the next vacant one of its chunk or
    /// `NIL`.
    pub(super) next: u32,
}

struct Chunk<T> {
    /// The index of the chunk's first node.
    first: u32,
    /// `None` while the chunk's memory is given back.
    nodes: Option<Memory<T>>,
    /// The first vacant node within the chunk, or `NIL`.
    vacant: u32,
    occupied: u32,
    /// Every generation below this one may have been handed out, but for what was removed while
    /// the chunk was open. It is full when it ceases to be, so each node is removed once more.
    floor: u32,
    /// Whether `Slab::partial` holds this chunk.
    listed: bool,
}

impl<T> Chunk<T> {
    /// The chunk of that number, without memory.
    fn new(number: usize) -> Self {
        Self {
            first: (number * CHUNK) as u32,
            nodes: None,
            vacant: NIL,
            occupied: 0,
            floor: 1,
            listed: false,
        }
    }
}

/// The memory of a chunk.
type Memory<T> = Box<[Node<T>; CHUNK]>;

#[repr(C)]
pub(super) struct Slab<T> {
    len: usize,
    /// The chunk that insertions go to.
    open: usize,
    chunks: Vec<Chunk<T>>,
    /// Memory of no chunk, if freeing is deferred: taken by the next that needs some, or by the caller.
    spare: Vec<Memory<T>>,
    /// Whether the caller sees to allocating and freeing.
    defers: bool,
    /// Chunks that had a vacant node when they were put here; some may be freed since.
    partial: Vec<usize>,
    /// Chunks without memory that can be allocated anew.
    freed: Vec<usize>,
    /// Chunks that have memory.
    in_memory: usize,
    /// Chunks that keep their memory, even if empty: what was reserved.
    reserved: usize,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self {
            len: 0,
            open: 0,
            chunks: Vec::new(),
            spare: Vec::new(),
            defers: false,
            partial: Vec::new(),
            freed: Vec::new(),
            in_memory: 0,
            reserved: 0,
        }
    }

    /// A slab that neither allocates nor frees, if there is room before each insertion and what is
    /// spare is taken after each removal.
    pub(super) const fn deferring() -> Self {
        let mut slab = Self::new();
        slab.defers = true;
        slab
    }

    /// Whether an insertion needs no memory.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        match self.chunks.get(self.open) {
            Some(chunk) if chunk.vacant != NIL => true,
            _ => self.open_partial() || self.can_open_spare(),
        }
    }

    /// What an insertion needs that finds no room.
    pub(super) fn lack(&self) -> Lack {
        Lack {
            chunks: if self.can_number() {
                0
            } else {
                (2 * self.chunks.len()).max(FIRST_CHUNKS)
            },
        }
    }

    /// Gets room, and gives back what the caller is to drop.
    pub(super) fn supply(&mut self, room: Room<T>) -> impl Sized + use<T> {
        let Room { memory, lists } = room;
        let replaced = lists.map(|mut lists| {
            if lists.chunks.capacity() > self.chunks.capacity() {
                move_to(&mut self.chunks, &mut lists.chunks);
                move_to(&mut self.spare, &mut lists.spare);
                move_to(&mut self.partial, &mut lists.partial);
                move_to(&mut self.freed, &mut lists.freed);
            }
            lists
        });
        let surplus = if self.spare.len() < self.spare.capacity() {
            self.spare.push(memory);
            None
        } else {
            // Others have supplied more than enough meanwhile.
            Some(memory)
        };
        (replaced, surplus)
    }

    /// Memory that no chunk uses.
    #[inline]
    pub(super) fn take_spare(&mut self) -> Option<impl Sized + use<T>> {
        self.spare.pop()
    }

    /// Whether there is memory that no chunk uses.
    #[inline]
    pub(super) fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts an entry in, with its links.
    #[inline]
    pub(super) fn insert(&mut self, value: T, deadline: Tick, links: Links) -> Key {
        let chunk = match self.chunks.get_mut(self.open) {
            Some(chunk) if chunk.vacant != NIL => chunk,
            _ => self.open_chunk(),
        };
        let local = chunk.vacant;
        let node = &mut nodes_of(&mut chunk.nodes)[local as usize];
        chunk.vacant = node.links.next;
        chunk.occupied += 1;
        node.value = Some(value);
        node.deadline = deadline;
        node.links = links;
        let key = Key {
            index: chunk.first + local,
            generation: NonZeroU32::new(node.generation).expect("a vacant node is not retired"),
        };
        self.len += 1;
        key
    }

    /// The entry that `key` names, while it is there.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<&Node<T>> {
        let chunk = self.chunks.get(key.index as usize / CHUNK)?;
        let node = &chunk.nodes.as_deref()?[key.index as usize % CHUNK];
        (node.generation == key.generation.get()).then_some(node)
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn find_mut(&mut self, key: Key) -> Option<&mut Node<T>> {
        let chunk = self.chunks.get_mut(key.index as usize / CHUNK)?;
        let node = &mut chunk.nodes.as_deref_mut()?[key.index as usize % CHUNK];
        (node.generation == key.generation.get()).then_some(node)
    }

    /// Takes out the entry that `key` names, if it is there. The links that it had are for the
    /// caller to mend.
    #[inline]
    pub(super) fn remove(&mut self, key: Key) -> Option<(T, Links)> {
        let number = key.index as usize / CHUNK;
        let chunk = self.chunks.get_mut(number)?;
        let node = &mut chunk.nodes.as_deref_mut()?[key.index as usize % CHUNK];
        if node.generation != key.generation.get() {
            return None;
        }
        let links = node.links;
        let value = node.value.take()?;
        let generation = key.generation.get();
        let next_generation = if generation == LAST_GENERATION {
            chunk.floor = LAST_GENERATION;
            RETIRED
        } else {
            node.links.next = chunk.vacant;
            chunk.vacant = key.index - chunk.first;
            generation + 1
        };
        node.generation = next_generation;
        chunk.occupied -= 1;
        self.len -= 1;
        if number != self.open {
            chunk.floor = chunk.floor.max(next_generation);
            if chunk.occupied == 0 && self.in_memory > self.reserved {
                self.free_chunk(number);
            } else {
                self.list(number);
            }
        }
        Some((value, links))
    }

    /// The key of the entry at `index`.
    #[inline]
    pub(super) fn key(&self, index: u32) -> Key {
        let generation = NonZeroU32::new(self.node(index).generation);
        Key {
            index,
            generation: generation.expect("an entry's node is not retired"),
        }
    }

    #[inline]
    pub(super) fn node(&self, index: u32) -> &Node<T> {
        let nodes = self.chunks[index as usize / CHUNK].nodes.as_deref();
        &nodes.expect("a linked node has memory")[index as usize % CHUNK]
    }

    #[inline]
    pub(super) fn node_mut(&mut self, index: u32) -> &mut Node<T> {
        &mut nodes_of(&mut self.chunks[index as usize / CHUNK].nodes)[index as usize % CHUNK]
    }

    /// The keys of all entries, by index.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        (self.chunks.iter()).flat_map(|chunk| {
            let nodes = chunk.nodes.iter().flat_map(|nodes| nodes.iter());
            (chunk.first..).zip(nodes).filter_map(|(index, node)| {
                node.value.as_ref()?;
                let generation = NonZeroU32::new(node.generation)?;
                Some(Key { index, generation })
            })
        })
    }

    /// The deadlines of the entries in a chunk, at most [`CHUNK`], if there is a chunk of that
    /// number.
    pub(super) fn deadlines(&self, number: usize) -> Option<impl Iterator<Item = Tick>> {
        let chunk = self.chunks.get(number)?;
        let nodes = chunk.nodes.iter().flat_map(|nodes| nodes.iter());
        let entries = nodes.filter(|node| node.value.is_some());
        Some(entries.map(|node| node.deadline))
    }

    /// The number of entries for which there is memory.
    pub(super) fn capacity(&self) -> usize {
        (self.in_memory + self.spare.len()) * CHUNK
    }

    /// Gets memory for `additional` entries more, and keeps it.
    pub(super) fn reserve(&mut self, additional: usize) {
        let wanted = (self.len + additional).div_ceil(CHUNK);
        self.reserved = self.reserved.max(wanted);
        while self.in_memory < wanted {
            let number = self.allocate_chunk();
            self.list(number);
        }
    }

    /// Gives back all memory in which there is no entry.
    pub(super) fn shrink_to_fit(&mut self) {
        self.raise_floor_of_open();
        self.reserved = 0;
        for number in 0..self.chunks.len() {
            self.chunks[number].listed = false;
            if self.chunks[number].occupied == 0 {
                self.free_chunk(number);
            }
        }
        self.partial.retain(|number| {
            let chunk = &mut self.chunks[*number];
            chunk.listed = chunk.vacant != NIL;
            chunk.listed
        });
        self.partial.shrink_to_fit();
    }

    /// Chooses the chunks that can be emptied into the others' room and returns the keys of the
    /// entries in them. Each of these has to be removed and inserted again: it then comes to be in
    /// a chunk that is to stay, and those chosen are freed one by one. After the last,
    /// [`shrink_to_fit`](Self::shrink_to_fit) makes those usable anew.
    pub(super) fn begin_compaction(&mut self) -> Vec<Key> {
        self.raise_floor_of_open();
        let room = |chunk: &Chunk<T>| {
            let nodes = chunk.nodes.iter().flat_map(|nodes| nodes.iter());
            let vacant = |node: &&Node<T>| node.value.is_none() && node.generation != RETIRED;
            nodes.filter(vacant).count()
        };
        self.partial.clear();
        self.chunks
            .iter_mut()
            .for_each(|chunk| chunk.listed = false);
        let mut room_left: usize = self.chunks.iter().map(room).sum();
        let mut sparse_first: Vec<usize> = (0..self.chunks.len()).collect();
        sparse_first.retain(|number| self.chunks[*number].nodes.is_some());
        sparse_first.sort_by_key(|number| self.chunks[*number].occupied);
        let chosen = sparse_first.iter().take_while(|number| {
            let chunk = &self.chunks[**number];
            let needed = room(chunk) + chunk.occupied as usize;
            let fits = room_left >= needed;
            room_left = room_left.saturating_sub(needed);
            fits
        });
        let stay = sparse_first.split_off(chosen.count());
        let chosen = sparse_first;

        // As if they were listed already, so that no insertion finds those chosen.
        for number in chosen {
            self.chunks[number].listed = true;
        }
        let is_chosen = |key: &Key| self.chunks[key.index as usize / CHUNK].listed;
        let keys: Vec<Key> = self.keys().filter(is_chosen).collect();
        for number in stay {
            self.open = number;
            self.list(number);
        }
        keys
    }

    /// Turns the slab into its values, in no order.
    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        let chunks = self.chunks.into_iter().filter_map(|chunk| chunk.nodes);
        chunks
            .flat_map(|nodes| *nodes)
            .filter_map(|node| node.value)
    }

    /// Opens a chunk that has a vacant node: one that is in use already, else one whose memory
    /// was given back, else a new one.
    #[cold]
    #[inline(never)]
    fn open_chunk(&mut self) -> &mut Chunk<T> {
        if !self.open_partial() {
            let number = self.allocate_chunk();
            self.go_on_to(number);
        }
        &mut self.chunks[self.open]
    }

    /// Opens a chunk that is in use and has a vacant node, if there is one.
    #[cold]
    fn open_partial(&mut self) -> bool {
        while let Some(number) = self.partial.pop() {
            self.chunks[number].listed = false;
            if self.chunks[number].vacant != NIL {
                self.go_on_to(number);
                return true;
            }
        }
        false
    }

    /// Makes another chunk the open one.
    fn go_on_to(&mut self, number: usize) {
        let left = std::mem::replace(&mut self.open, number);
        // The chunk left behind is full or retired. If it is empty, nothing else would free it.
        if left != number && self.chunks.get(left).is_some_and(|c| c.occupied == 0) {
            self.free_chunk(left);
        }
    }

    /// Whether there is memory for a chunk, and a number for it.
    fn can_open_spare(&self) -> bool {
        self.has_spare() && self.can_number()
    }

    /// Whether there is a number for one more chunk that has memory, without longer lists.
    fn can_number(&self) -> bool {
        !self.freed.is_empty() || self.chunks.len() < self.chunks.capacity()
    }

    /// Has the floor of the open chunk hold although it ceases to be open before it is full.
    fn raise_floor_of_open(&mut self) {
        if let Some(chunk) = self.chunks.get_mut(self.open) {
            let nodes = chunk.nodes.iter().flat_map(|nodes| nodes.iter());
            let highest = nodes.map(|node| node.generation).max();
            chunk.floor = chunk.floor.max(highest.unwrap_or(0));
        }
    }

    /// Lets insertions find a chunk, if it has room.
    #[inline]
    fn list(&mut self, number: usize) {
        let chunk = &mut self.chunks[number];
        if !chunk.listed && chunk.vacant != NIL {
            chunk.listed = true;
            self.partial.push(number);
        }
    }

    fn allocate_chunk(&mut self) -> usize {
        // A node that is retired leaves no room to who takes an entry out and puts it in again.
        debug_assert!(
            !self.defers
                || self.has_spare()
                || self.chunks.iter().any(|c| c.floor == LAST_GENERATION),
            "who defers has to supply room first"
        );
        let number = self.freed.pop().unwrap_or_else(|| {
            assert!(
                self.chunks.len() < MAX_CHUNKS,
                "a wheel holds at most {MAX_ENTRIES} entries: spread them over more shards or queues",
            );
            self.chunks.push(Chunk::new(self.chunks.len()));
            self.chunks.len() - 1
        });
        let chunk = &mut self.chunks[number];
        let mut nodes = self.spare.pop().unwrap_or_else(allocate);
        for (next, node) in (1..).zip(nodes.iter_mut()) {
            node.links.next = if next == CHUNK as u32 { NIL } else { next };
            node.generation = chunk.floor;
        }
        chunk.nodes = Some(nodes);
        chunk.vacant = 0;
        self.in_memory += 1;
        number
    }

    /// Gives the memory of an empty chunk back, or has it spare for the caller to do so.
    #[cold]
    fn free_chunk(&mut self, number: usize) {
        let chunk = &mut self.chunks[number];
        chunk.vacant = NIL;
        let Some(nodes) = chunk.nodes.take() else {
            return;
        };
        if self.defers {
            self.spare.push(nodes);
        }
        self.in_memory -= 1;
        if chunk.floor < LAST_GENERATION {
            self.freed.push(number);
        }
    }
}

/// What an insertion needs.
pub(crate) struct Lack {
    /// The chunks that the slab is to be able to number, or 0 if that is so.
    chunks: usize,
}

/// Memory for one more chunk.
pub(crate) struct Room<T> {
    memory: Memory<T>,
    lists: Option<Lists<T>>,
}

/// Longer lists for a slab, each with room for an item of every chunk.
struct Lists<T> {
    chunks: Vec<Chunk<T>>,
    spare: Vec<Memory<T>>,
    partial: Vec<usize>,
    freed: Vec<usize>,
}

impl<T> Room<T> {
    /// Allocates what is needed.
    pub(crate) fn new(lack: Lack) -> Self {
        let Lack { chunks } = lack;
        Self {
            memory: allocate(),
            lists: (chunks > 0).then(|| Lists {
                chunks: touched(chunks, Chunk::new),
                spare: Vec::with_capacity(chunks),
                partial: touched(chunks, |number| number),
                freed: touched(chunks, |number| number),
            }),
        }
    }
}

/// An empty list for so many items, all of whose memory has been written to: the system gives a page at
/// the first write to it, which is not to be under a lock.
fn touched<I>(items: usize, item: impl FnMut(usize) -> I) -> Vec<I> {
    let mut list: Vec<I> = (0..items).map(item).collect();
    list.clear();
    list
}

/// Moves the items of a list to a longer one, which takes its place.
fn move_to<I>(list: &mut Vec<I>, longer: &mut Vec<I>) {
    longer.append(list);
    std::mem::swap(list, longer);
}

/// Nodes that are vacant, and in no list yet.
fn allocate<T>() -> Memory<T> {
    let nodes: Box<[Node<T>]> = (0..CHUNK)
        .map(|_| Node {
            value: None,
            deadline: Tick(0),
            links: Links {
                prev: NIL,
                next: NIL,
            },
            generation: RETIRED,
        })
        .collect();
    let nodes = nodes.try_into().ok();
    nodes.expect("there are as many")
}

/// The nodes of a chunk that has memory.
#[inline]
fn nodes_of<T>(nodes: &mut Option<Memory<T>>) -> &mut [Node<T>; CHUNK] {
    nodes.as_mut().expect("the chunk has memory")
}

#[cfg(all(any(test, fuzzing), not(tokio_wheel_loom)))]
impl<T> Slab<T> {
    pub(super) fn assert_invariants(&self) {
        let (mut len, mut in_memory) = (0, 0);
        for (number, chunk) in self.chunks.iter().enumerate() {
            let Some(nodes) = chunk.nodes.as_deref() else {
                assert_eq!((chunk.occupied, chunk.vacant), (0, NIL));
                continue;
            };
            let occupied = nodes.iter().filter(|node| node.value.is_some()).count();
            assert_eq!(occupied, chunk.occupied as usize);
            in_memory += 1;
            assert!(
                occupied > 0 || number == self.open || self.in_memory <= self.reserved,
                "an empty chunk keeps memory"
            );
            let (mut vacant, mut walk) = (0, chunk.vacant);
            while walk != NIL {
                let node = &nodes[walk as usize];
                assert!(node.value.is_none() && node.generation != RETIRED);
                (vacant, walk) = (vacant + 1, node.links.next);
            }
            let retired = nodes.iter().filter(|n| n.generation == RETIRED).count();
            assert_eq!(occupied + vacant + retired, CHUNK);
            assert!(
                vacant == 0 || number == self.open || chunk.listed,
                "room that no insertion would find"
            );
            len += occupied;
        }
        assert_eq!((len, in_memory), (self.len, self.in_memory));
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    const LINKS: Links = Links {
        prev: NIL,
        next: NIL,
    };

    fn fill(slab: &mut Slab<u32>, count: u32) -> Vec<Key> {
        (0..count).map(|n| slab.insert(n, Tick(0), LINKS)).collect()
    }

    #[test]
    fn stale_keys_never_alias() {
        let mut slab = Slab::new();
        let mut stale: Vec<Key> = Vec::new();
        // Many lives of each node: past retirement, across freed chunks.
        for round in 0..400 {
            let keys = fill(&mut slab, 1 + round % 11);
            for key in &stale {
                assert!(slab.find(*key).is_none(), "{key:?} came alive in {round}");
            }
            for key in &keys {
                assert!(slab.find(*key).is_some());
                assert!(slab.remove(*key).is_some());
                assert!(slab.remove(*key).is_none());
                slab.assert_invariants();
            }
            stale.extend(keys);
        }
    }

    #[test]
    fn a_deferring_slab_neither_allocates_nor_frees() {
        let mut slab = Slab::deferring();
        let memory = |slab: &Slab<u32>| {
            let capacities = [slab.partial.capacity(), slab.freed.capacity()];
            let chunks = slab.in_memory + slab.spare.len();
            (
                capacities,
                slab.chunks.capacity(),
                slab.spare.capacity(),
                chunks,
            )
        };
        let mut keys = Vec::new();
        for round in 0..3_000_u32 {
            let before = memory(&slab);
            // Grows and shrinks in turn, and leaves some of what is spare for later.
            if round % 300 < 200 {
                while !slab.has_room() {
                    drop(slab.supply(Room::new(slab.lack())));
                }
                let before = memory(&slab);
                keys.push(slab.insert(round, Tick(0), LINKS));
                assert_eq!(memory(&slab), before, "inserting in round {round}");
            } else {
                for _ in 0..keys.len().min(3) {
                    let key = keys.swap_remove(round as usize * 7 % keys.len());
                    assert!(slab.remove(key).is_some());
                    assert_eq!(memory(&slab), before, "removing in round {round}");
                }
                if round % 2 == 0 {
                    drop(slab.take_spare());
                }
            }
            slab.assert_invariants();
        }
        while slab.take_spare().is_some() {}
        assert!(slab.chunks.len() > 8 && slab.in_memory <= 1);
    }

    #[test]
    fn generations_survive_a_freed_chunk() {
        let mut slab = Slab::new();
        let keys = fill(&mut slab, CHUNK as u32 * 3);
        for key in &keys {
            slab.remove(*key);
        }
        assert_eq!(slab.in_memory, 1, "only the open chunk stays");
        let again = fill(&mut slab, CHUNK as u32 * 3);
        assert!(keys.iter().all(|key| slab.find(*key).is_none()));
        assert!(again.iter().all(|key| slab.find(*key).is_some()));
    }

    #[test]
    fn a_used_up_node_is_retired() {
        let mut slab = Slab::new();
        let mut indices = Vec::new();
        for _ in 0..LAST_GENERATION + 1 {
            let key = slab.insert(0, Tick(0), LINKS);
            indices.push(key.index);
            slab.remove(key);
        }
        let first = indices[0];
        let lives = indices.iter().filter(|index| **index == first).count();
        assert_eq!(lives, LAST_GENERATION as usize);
        slab.assert_invariants();
    }

    /// With a sleep's own 32 and the allocator's overhead it is below the 80 that the design allows.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_waker_takes_40_bytes() {
        assert_eq!(size_of::<Node<std::task::Waker>>(), 40);
    }

    #[test]
    fn memory_goes_back_chunk_by_chunk() {
        let mut slab = Slab::new();
        let keys = fill(&mut slab, CHUNK as u32 * 8);
        assert_eq!(slab.in_memory, 8);
        for (removed, key) in keys.iter().enumerate() {
            slab.remove(*key);
            let full = 8 - (removed + 1) / CHUNK;
            assert_eq!(slab.in_memory, full.max(1));
        }
    }

    #[test]
    fn the_absent_key_is_absent() {
        let mut slab = Slab::new();
        fill(&mut slab, 100);
        assert!(slab.find(Key::ABSENT).is_none());
    }
}

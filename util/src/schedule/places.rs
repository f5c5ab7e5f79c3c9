//! Places for values, in chunks, so that a list of a million tasks grows without being copied under its lock, and its memory
//! goes back chunk by chunk.

use std::mem;

use slab::Slab;

const CHUNK: usize = 256;

pub(super) struct Places<T> {
    chunks: Vec<Slab<T>>,
    /// The chunks that are not full.
    with_room: Vec<usize>,
    /// The chunk that last became empty. No other empty chunk has memory. So a list that grows and shrinks by one does not
    /// allocate each time.
    emptied: usize,
    len: usize,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            with_room: Vec::new(),
            emptied: 0,
            len: 0,
        }
    }
}

impl<T> Places<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a value, and returns its place.
    pub(super) fn insert(&mut self, value: T) -> usize {
        let number = self.with_room.last().copied().unwrap_or_else(|| {
            self.chunks.push(Slab::new());
            self.with_room.push(self.chunks.len() - 1);
            self.chunks.len() - 1
        });
        let chunk = &mut self.chunks[number];
        if chunk.capacity() == 0 {
            chunk.reserve(CHUNK);
        }
        let local = chunk.insert(value);
        if chunk.len() == CHUNK {
            self.with_room.pop();
        }
        self.len += 1;
        number * CHUNK + local
    }

    /// Removes the value of a place, which must have one. Also returns memory that is not needed anymore.
    pub(super) fn remove(&mut self, place: usize) -> (T, Slab<T>) {
        let number = place / CHUNK;
        let chunk = &mut self.chunks[number];
        if chunk.len() == CHUNK {
            self.with_room.push(number);
        }
        self.len -= 1;
        let value = chunk.remove(place % CHUNK);
        let mut unused = Slab::new();
        if chunk.is_empty() && number != self.emptied {
            let last = &mut self.chunks[mem::replace(&mut self.emptied, number)];
            if last.is_empty() {
                unused = mem::take(last);
            }
        }
        (value, unused)
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        let chunks = self.chunks.into_iter().flatten();
        chunks.map(|(_, value)| value)
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        /// Values keep their places, no chunk grows, one empty chunk has memory, and a free place is used before a new chunk.
        #[test]
        fn values_keep_their_places(removals in vec(any::<usize>(), 0..2_000), more in 0..2_000_usize) {
            let mut places = Places::default();
            let mut held: Vec<_> = (0..1_000).map(|value| (places.insert(value), value)).collect();
            for removed in removals {
                if !held.is_empty() {
                    let (place, value) = held.swap_remove(removed % held.len());
                    prop_assert_eq!(places.remove(place).0, value);
                }
            }
            held.extend((1_000..1_000 + more).map(|value| (places.insert(value), value)));
            prop_assert_eq!(places.len(), held.len());
            let with_memory = places.chunks.iter().filter(|chunk| chunk.capacity() > 0);
            prop_assert!(with_memory.clone().all(|chunk| chunk.capacity() == CHUNK));
            prop_assert!(with_memory.filter(|chunk| chunk.is_empty()).count() <= 1);
            prop_assert_eq!(places.chunks.len(), held.len().div_ceil(CHUNK).max(4));
            let mut values: Vec<_> = held.into_iter().map(|(_, value)| value).collect();
            values.sort_unstable();
            let mut found: Vec<_> = places.into_values().collect();
            found.sort_unstable();
            prop_assert_eq!(found, values);
        }
    }
}

//! The part of a key's hash that a set stores, and the rule that assigns keys to shards.
//!
//! A [`Part`] describes the keys of one shard. The mask of a part selects the lowest bits of a
//! key's number. If these bits equal the index of the shard, the key belongs to the shard.
//!
//! Invariant: each digest belongs to the part of exactly one shard (`each_digest_is_in_one_part`).

use std::num::NonZeroU32;

/// The part of a key's hash that the set stores. Nearly all keys have different digests, so the set
/// seldom compares two different keys.
///
/// The highest bit is always set, so a digest is never 0. This saves memory: an entry of the wheel
/// takes 24 bytes instead of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Digest(NonZeroU32);

impl Digest {
    /// An odd number with irregular bits: 2^64 divided by the golden ratio.
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

    /// The bit that is always set.
    const SET: NonZeroU32 = NonZeroU32::new(1 << 31).unwrap();

    /// Creates the digest of a hash. Some hashers leave half of the hash's bits unused. So each bit
    /// of the digest depends on the whole hash.
    #[inline]
    pub(super) fn of(hash: u64) -> Self {
        let product = u128::from(hash) * u128::from(Self::FACTOR);
        let folded = (product >> 64) as u64 ^ product as u64;
        Self(Self::SET | folded as u32)
    }

    /// Returns the hash of the digest for a table of keys. The table uses the highest and the
    /// lowest bits of this hash.
    #[inline]
    pub(super) fn spread(self) -> u64 {
        u64::from(self.0.get()).wrapping_mul(Self::FACTOR)
    }

    /// Returns the number whose lowest bits select a shard.
    ///
    /// All keys of one shard have equal lowest bits in this number. If the table of keys used these
    /// bits, the keys would collide. So the table uses other bits of the hash.
    #[inline]
    pub(super) fn number(self) -> u32 {
        (self.spread() >> 32) as u32
    }
}

/// Describes the keys that belong to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    number: u32,
    /// Selects the lowest bits of a key's number. Each split adds one bit to the mask.
    mask: u32,
    /// A part with this mask cannot split any more.
    last_mask: u32,
}

impl Part {
    /// Returns the part that contains all keys. Splits can divide it into up to `most` parts.
    /// `most` must be a power of two.
    pub(super) fn whole(most: usize) -> Self {
        debug_assert!(most.is_power_of_two());
        Self {
            number: 0,
            mask: 0,
            last_mask: (most - 1) as u32,
        }
    }

    #[inline]
    pub(super) fn has(self, digest: Digest) -> bool {
        digest.number() & self.mask == self.number
    }

    #[inline]
    pub(super) fn can_split(self) -> bool {
        self.mask < self.last_mask
    }

    /// Returns the index of the shard to which the part belongs.
    pub(super) fn number(self) -> usize {
        self.number as usize
    }

    /// Splits the part by the next bit of a key's number. Returns the part of the keys whose number
    /// has this bit set.
    pub(super) fn split(&mut self) -> Self {
        debug_assert!(self.can_split());
        let bit = self.mask + 1;
        self.mask |= bit;
        Self {
            number: self.number | bit,
            ..*self
        }
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    /// Checks hashers that use different bits. Nearly all digests differ, and they spread over all
    /// shards.
    #[test]
    fn all_bits_of_a_hash_tell() {
        for shift in 0..53 {
            let digest = |n: u64| Digest::of(n << shift);
            let mut digests: Vec<_> = (0..2_048).map(|n| digest(n).0).collect();
            digests.sort_unstable();
            digests.dedup();
            assert!(digests.len() > 2_000, "{} at {shift}", digests.len());
            let mut shards = [0_u32; 16];
            for n in 0..2_048 {
                shards[digest(n).number() as usize % 16] += 1;
            }
            assert!(
                shards.iter().all(|n| (32..512).contains(n)),
                "{shards:?} at {shift}"
            );
        }
    }

    /// All hashes of the keys in one shard have some equal bits. The keys still spread over the
    /// whole table.
    #[test]
    fn a_part_has_all_places_of_a_table() {
        let mut places = [0_u32; 64];
        let mut tags = [0_u32; 128];
        let part = (0..)
            .map(Digest::of)
            .filter(|digest| digest.number() % 1_024 == 7);
        for digest in part.take(4_096) {
            places[digest.spread() as usize % 64] += 1;
            tags[(digest.spread() >> 57) as usize] += 1;
        }
        assert!(places.iter().all(|n| (16..256).contains(n)), "{places:?}");
        assert!(tags.iter().all(|n| (8..128).contains(n)), "{tags:?}");
    }

    #[test]
    fn each_digest_is_in_one_part() {
        let mut parts = vec![Part::whole(16)];
        for next in [0, 1, 1, 0, 2, 0, 3] {
            if parts[next].can_split() {
                let half = parts[next].split();
                parts.push(half);
            }
            let mut numbers: Vec<_> = parts.iter().map(|part| part.number()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), parts.len());
            for n in 0..1_000 {
                let has = parts.iter().filter(|part| part.has(Digest::of(n)));
                assert_eq!(has.count(), 1);
            }
        }
        assert!(parts.iter().any(|part| !part.can_split()), "{parts:?}");
    }
}

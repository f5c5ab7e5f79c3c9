//! The part of a key's hash that a set stores.

use std::num::NonZeroU32;

/// The part of a key's hash that the set stores. Nearly all keys have different digests, so the set
/// seldom compares two different keys.
///
/// The highest bit is always set, so a digest is never 0. This saves memory: an entry of the wheel
/// takes 24 bytes instead of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// Returns the number of the key's shard. The number of shards must be a power of two.
    ///
    /// All keys of a shard have some equal bits. If the table of keys used these bits, the keys
    /// would collide. So the table uses other bits of the hash.
    #[inline]
    pub(super) fn shard(self, shards: usize) -> usize {
        debug_assert!(shards.is_power_of_two());
        (self.spread() >> 32) as usize & (shards - 1)
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
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
            (0..2_048).for_each(|n| shards[digest(n).shard(16)] += 1);
            assert!(
                shards.iter().all(|n| (32..512).contains(n)),
                "{shards:?} at {shift}"
            );
        }
    }

    /// All hashes of the keys in one shard have some equal bits. The keys still spread over the
    /// whole table.
    #[test]
    fn the_keys_of_a_shard_have_all_places_of_a_table() {
        let mut places = [0_u32; 64];
        let mut tags = [0_u32; 128];
        let keys = (0..).map(Digest::of);
        for digest in keys.filter(|digest| digest.shard(1_024) == 7).take(4_096) {
            places[digest.spread() as usize % 64] += 1;
            tags[(digest.spread() >> 57) as usize] += 1;
        }
        assert!(places.iter().all(|n| (16..256).contains(n)), "{places:?}");
        assert!(tags.iter().all(|n| (8..128).contains(n)), "{tags:?}");
    }
}

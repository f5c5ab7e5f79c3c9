//! A histogram of how late entries fire. The bounds of its buckets are powers of two, in ticks.

/// The number of buckets. The last bucket with a bound counts entries that are up to 2^34 ticks late. With
/// the default tick, this is 3 days. With the shortest tick, this is 17 s.
pub(crate) const BUCKETS: usize = 37;

/// A histogram of the lateness of the entries that fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lateness {
    /// The number of entries in each bucket.
    pub(crate) counts: [u64; BUCKETS],
    /// The sum of the lateness of all entries, in ticks. The sum saturates.
    pub(crate) sum: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        let counts = [0; BUCKETS];
        Self { counts, sum: 0 }
    }
}

impl Lateness {
    /// Counts an entry that fired late by `ticks` ticks.
    #[inline]
    pub(crate) fn count(&mut self, ticks: u64) {
        self.counts[bucket(ticks)] += 1;
        self.sum = self.sum.saturating_add(ticks);
    }

    /// Combines each number with the number of `other`: adds another shard, or subtracts an earlier reading.
    pub(crate) fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        for (count, other) in self.counts.iter_mut().zip(other.counts) {
            *count = with(*count, other);
        }
        self.sum = with(self.sum, other.sum);
    }
}

/// Returns the index of the bucket for a lateness. The buckets count 0, 1, 2, 3 to 4, 5 to 8 ticks, and so
/// on.
// This function has no branches, because the driver calls it for each entry under a shard's lock.
#[inline]
fn bucket(ticks: u64) -> usize {
    let ticks = ticks.min(1 << (BUCKETS - 2));
    (u64::BITS - (2 * ticks).saturating_sub(1).leading_zeros()) as usize
}

/// Returns the greatest lateness that a bucket counts, in ticks. Returns `None` for the last bucket, because
/// it has no bound.
pub(crate) fn bound(bucket: usize) -> Option<u64> {
    match bucket {
        0 => Some(0),
        _ if bucket < BUCKETS - 1 => Some(1 << (bucket - 1)),
        _ => None,
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_holds_the_ticks_up_to_its_bound() {
        for number in 0..BUCKETS - 1 {
            let most = bound(number).unwrap();
            assert_eq!(bucket(most), number, "{most} ticks");
            assert_eq!(bucket(most + 1), number + 1, "{most} ticks and one more");
        }
        assert_eq!(bound(BUCKETS - 1), None);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_sum_saturates() {
        let mut lateness = Lateness::default();
        lateness.count(u64::MAX);
        lateness.count(7);
        assert_eq!(lateness.sum, u64::MAX);
        let mut both = lateness.clone();
        both.combine(&lateness, u64::saturating_add);
        assert_eq!(both.sum, u64::MAX);
        assert_eq!(both.counts.iter().sum::<u64>(), 4);
    }
}

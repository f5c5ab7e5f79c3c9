//! Generates random numbers.

use std::time::Duration;

/// An xorshift generator. It costs almost nothing beside the operation that uses its numbers.
pub struct Random(u64);

impl Random {
    /// Creates a generator. Each thread has another sequence, and each run has the same sequences.
    pub fn new(thread: usize) -> Self {
        Self(0x9E37_79B9_7F4A_7C15 + thread as u64)
    }

    /// Returns a number less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Returns a duration less than `horizon`.
    pub fn delay(&mut self, horizon: Duration) -> Duration {
        Duration::from_nanos(self.below(horizon.as_nanos() as u64))
    }
}

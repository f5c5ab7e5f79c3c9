//! Numbers without order.

use std::time::Duration;

/// By xorshift, which costs next to nothing beside what it is drawn for.
pub struct Random(u64);

impl Random {
    /// Another sequence for each thread, and the same ones in each run.
    pub fn new(thread: usize) -> Self {
        Self(0x9E37_79B9_7F4A_7C15 + thread as u64)
    }

    /// A number less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// A duration less than `horizon`.
    pub fn delay(&mut self, horizon: Duration) -> Duration {
        Duration::from_nanos(self.below(horizon.as_nanos() as u64))
    }
}

//! The unit of time.

/// A point in time, in ticks since the wheel's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tick(pub(crate) u64);

impl Tick {
    /// Later than every tick that a clock reaches.
    pub(crate) const NEVER: Self = Self(u64::MAX);
}

//! The unit of time.

/// A point in time, measured in ticks since the wheel's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tick(pub(crate) u64);

impl Tick {
    /// A tick that is later than every tick that a clock can reach.
    pub(crate) const NEVER: Self = Self(u64::MAX);
}

//! The two directions of a stream.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    /// Writes, flushes and the shutdown.
    Write,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::Read, Self::Write];

    /// Returns the opposite direction.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }
}

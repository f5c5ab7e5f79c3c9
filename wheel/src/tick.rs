//! Time, in ticks.

/// A point in time: the number of ticks since an origin. The owner of a wheel chooses the origin and the length of a tick.
pub type Tick = u64;

/// The last tick. An entry with this deadline fires when the wheel is advanced to it.
pub const NEVER: Tick = Tick::MAX;

/// The distance from which an entry is certain to be coarse: if its deadline is at least this many ticks after `now`, it
/// goes to a coarse level, whose slots go to the backlog.
///
/// With tokio-wheel's default tick of 1/64 ms, this is 64 ms. The constant holds for the default geometry.
// Test: `what_is_coarse_for_sure`.
pub const COARSE_FROM: u64 = 64 * 64;

/// The distance up to which an entry is certain to be fine: if its deadline is less than this many ticks after `now`, it
/// goes to a fine level.
///
/// With tokio-wheel's default tick of 1/64 ms, this is 63 ms. The constant holds for the default geometry.
// Test: `what_is_coarse_for_sure`.
pub const FINE_TO: u64 = COARSE_FROM - 63;

//! The pressure, and the lead of the wheels over the clock.
//!
//! A record stores the timeout of its key and the deadline that the last touch set. Pressure
//! subtracts a part of the timeout from the deadline. The result is the *effective* deadline. No
//! key loses more time than a key with the set's timeout loses. The wheels' time is the clock's
//! time plus the *lead*. A key is due at its effective deadline plus the lead. The tick of its
//! entry is this tick or an earlier tick.
//!
//! | Event          | Effective deadlines             | Lead         | Cost |
//! |----------------|---------------------------------|--------------|------|
//! | pressure rises | become earlier, by at most `t`  | rises by `t` | O(1) |
//! | pressure falls | become later                    | stays        | O(1) |
//!
//! # Invariants
//!
//! * The lead never falls. A change of the pressure never makes a key due at an earlier tick of the
//!   wheels. A rise adds `t` ticks to the lead, and subtracts at most `t` ticks from each deadline
//!   (`a_rise_takes_no_more_than_it_adds_to_the_lead`). So no entry fires too late. An entry may
//!   fire too early, and then the shard moves it (`tests/idle/oracle.rs`,
//!   `keys_come_out_as_in_the_model`).
//! * A thread reads the lead first and the pressure second. It never sees a new lead with an old
//!   pressure, because a rise stores the pressure first. Model: `pressure_races_insertion`.
//! * After a thread has raised the lead, it wakes the reaper, which sets its alarm again: see
//!   [`shards`](super::shards). Model: `pressure_races_wait`.
//!
//! [`Reaper::shed`](super::Reaper::shed) advances wheels beyond the wheels' time. A shed changes
//! neither the lead nor the wheels' time. After a shed, some entries would fire too late. Their
//! [shards](super::shard) list these entries.

use std::time::Duration;

use bounded_wheel::{NEVER, Tick};

use crate::{
    ground::sync::{AtomicU64, Ordering},
    limit::nanos,
};

/// The limit of the lead. Ticks of a clock are below twice this limit, so the sum of such a tick
/// and the lead does not overflow.
///
/// When the lead is at the limit, a rise of the pressure does not affect the keys in the set. With
/// a tick of 1/64 ms, the lead reaches the limit after 800 million rises. Each of these rises adds
/// a [day](LONGEST) to the lead.
const MOST: u64 = 1 << 62;

/// Calculations with the pressure use at most this part of the set's timeout. Without this limit, a
/// very long timeout would soon bring the lead to [`MOST`].
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The pressure and the lead of a set.
///
/// `Pressure` has its own cache lines, because every touch reads the clock next to it. A change of
/// the pressure must not slow touches down.
#[repr(align(128))]
pub(super) struct Pressure {
    /// The length of a tick, in nanoseconds.
    tick: u64,
    /// The timeout of the set, in nanoseconds, but at most [`LONGEST`].
    usual: u64,
    /// The minimal timeout, in nanoseconds. Pressure does not reduce a timeout below this value.
    minimum: u64,
    /// The pressure, stored as the bits of an `f64` from 0 to 1.
    pressure: AtomicU64,
    lead: AtomicU64,
}

impl Pressure {
    pub(super) fn new(tick: Duration, usual: Duration, minimum: Duration) -> Self {
        debug_assert!(minimum <= usual);
        Self {
            tick: nanos(tick),
            usual: nanos(usual.min(LONGEST)),
            minimum: nanos(minimum),
            pressure: AtomicU64::new(0),
            lead: AtomicU64::new(0),
        }
    }

    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.pressure.load(Ordering::Acquire))
    }

    /// Sets the pressure. Returns whether the lead has risen.
    pub(super) fn set(&self, pressure: f64) -> bool {
        let positive = Some(pressure).filter(|pressure| *pressure > 0.0);
        let pressure = positive.map_or(0.0, |pressure| pressure.min(1.0));
        // Two threads may set the pressure at the same time. Then the later swap returns the value of
        // the earlier swap. So the later thread computes the rise from that value.
        let before = self.pressure.swap(pressure.to_bits(), Ordering::AcqRel);
        let rise = (self.lost(pressure)).saturating_sub(self.lost(f64::from_bits(before)));
        if rise > 0 {
            let raised = |lead: u64| Some(lead.saturating_add(rise).min(MOST));
            let before = (self.lead).fetch_update(Ordering::AcqRel, Ordering::Acquire, raised);
            debug_assert!(before.is_ok(), "the update returns a value");
        }
        rise > 0
    }

    /// Returns the number of ticks that a key with the set's timeout loses. Rounds the time to a
    /// nanosecond and then down to a tick. An `f64` is exact to a nanosecond, because a day has less
    /// than 2^53 of them.
    fn lost(&self, pressure: f64) -> u64 {
        if pressure == 0.0 {
            return 0;
        }
        (self.range(self.usual) as f64 * pressure).round() as u64 / self.tick
    }

    /// Returns the nanoseconds that a timeout loses under a pressure of 1. The timeout is also in
    /// nanoseconds.
    fn range(&self, timeout: u64) -> u64 {
        timeout.min(self.usual).saturating_sub(self.minimum)
    }

    /// Returns the effective deadline of a key, as a tick of the clock. A key that never expires
    /// keeps its deadline.
    pub(super) fn effective(&self, deadline: Tick, timeout: u64) -> Tick {
        let lost = self.lost(self.get());
        if lost == 0 || deadline == NEVER {
            return deadline;
        }
        let [part, whole] = [timeout, self.usual].map(|timeout| self.range(timeout));
        // The calculation uses whole ticks. So when the pressure changes, no key loses more ticks
        // than a key with the set's timeout loses.
        let lost = u128::from(lost) * u128::from(part) / u128::from(whole);
        deadline.saturating_sub(lost as u64)
    }

    /// Returns the tick of the wheels at which a key is due. Reads the lead, and then the pressure.
    pub(super) fn due(&self, deadline: Tick, timeout: u64) -> Tick {
        let lead = self.lead();
        let effective = self.effective(deadline, timeout);
        effective.saturating_add(lead)
    }

    fn lead(&self) -> u64 {
        self.lead.load(Ordering::Acquire)
    }

    /// Converts a tick of the clock to a tick of the wheels.
    pub(super) fn ahead(&self, clock: Tick) -> Tick {
        clock.saturating_add(self.lead())
    }

    /// Converts a tick of the wheels to a tick of the clock.
    pub(super) fn on_the_clock(&self, wheel: Tick) -> Tick {
        match wheel {
            NEVER => NEVER,
            wheel => wheel.saturating_sub(self.lead()),
        }
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Returns a set's pressure with a timeout of 60 s, a minimal timeout of 10 s and a tick of 1 ms.
    fn pressure() -> Pressure {
        Pressure::new(Duration::from_millis(1), secs(60), secs(10))
    }

    fn effective(set: &Pressure, deadline: u64, timeout: u64) -> u64 {
        set.effective(deadline, timeout)
    }

    /// Checks the table in the documentation of
    /// [`IdleSet::set_pressure`](super::super::IdleSet::set_pressure).
    #[test]
    fn pressure_takes_its_part_of_a_timeout() {
        let set = pressure();
        for (pressure, expected) in [
            (0.0, [5, 10, 30, 60, 300]),
            (0.5, [5, 10, 20, 35, 275]),
            (0.7, [5, 10, 16, 25, 265]),
            (1.0, [5, 10, 10, 10, 250]),
        ] {
            set.set(pressure);
            let left = [5, 10, 30, 60, 300]
                .map(|timeout| effective(&set, timeout * 1_000, timeout * SECOND));
            assert_eq!(left, expected.map(|secs| secs * 1_000), "{pressure}");
        }
    }

    #[test]
    fn a_pressure_is_from_0_to_1() {
        let set = pressure();
        for (given, expected) in [
            (0.001, 0.001_f64),
            (7.0, 1.0),
            (f64::NAN, 0.0),
            (f64::INFINITY, 1.0),
            (-0.0, 0.0),
            (-1.0, 0.0),
        ] {
            set.set(given);
            assert_eq!(set.get().to_bits(), expected.to_bits(), "{given}");
        }
    }

    #[test]
    fn what_never_comes_stays_so() {
        let set = Pressure::new(Duration::from_nanos(1), Duration::MAX, Duration::ZERO);
        assert!(set.set(1.0));
        let never = NEVER;
        assert_eq!(set.effective(never, u64::MAX), never);
        assert_eq!(set.due(never, u64::MAX), never);
        assert_eq!(set.on_the_clock(never), never);
    }

    #[test]
    fn the_lead_stops_before_it_overflows() {
        let set = Pressure::new(Duration::from_nanos(1), Duration::MAX, Duration::ZERO);
        for _ in 0..MOST / nanos(LONGEST) + 1 {
            set.set(1.0);
            set.set(0.0);
        }
        assert_eq!(set.lead(), MOST);
        assert_eq!(set.due(7, 7), (MOST + 7));
    }

    /// A key keeps the part of its timeout that exceeds a day.
    #[test]
    fn a_set_of_more_than_a_day_has_the_pressure_of_one() {
        let day = nanos(LONGEST) / 1_000_000;
        let set = Pressure::new(Duration::from_millis(1), Duration::MAX, secs(10));
        set.set(1.0);
        assert_eq!(effective(&set, 2 * day, 2 * nanos(LONGEST)), day + 10_000);
        assert_eq!(effective(&set, 60_000, 60 * SECOND), 10_000);
        let set = Pressure::new(Duration::from_millis(1), Duration::MAX, 2 * LONGEST);
        assert!(!set.set(1.0));
        assert_eq!(effective(&set, 60_000, 60 * SECOND), 60_000);
    }

    proptest! {
        /// For any sequence of pressures, the sum of a key's effective deadline and the lead never
        /// falls.
        #[test]
        fn a_rise_takes_no_more_than_it_adds_to_the_lead(
            tick in 1..5_000_000_u64,
            (usual, minimum) in (0..100 * SECOND).prop_flat_map(|usual| (Just(usual), 0..=usual)),
            timeout in 0..200 * SECOND,
            pressures in proptest::collection::vec(0.0..=1.0, 1..20),
        ) {
            let [tick_length, usual_time, least] =
                [tick, usual, minimum].map(Duration::from_nanos);
            let set = Pressure::new(tick_length, usual_time, least);
            let deadline = timeout.div_ceil(tick);
            let mut last = set.due(deadline, timeout);
            for pressure in pressures {
                set.set(pressure);
                let entry = set.due(deadline, timeout);
                prop_assert!(entry >= last);
                last = entry;
                // No key loses more than its share. A key keeps the minimal timeout, or its own
                // timeout if that timeout is shorter.
                let left = effective(&set, deadline, timeout) * tick;
                let range = timeout.min(usual).saturating_sub(minimum) as f64;
                prop_assert!(left as f64 >= timeout as f64 - pressure * range - 1.0);
                prop_assert!(left >= timeout.min(minimum));
            }
        }
    }
}

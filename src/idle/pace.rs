//! The pressure, and the lead of the wheels over the clock.
//!
//! A record stores the timeout of its key and the deadline that the last touch set. Pressure
//! subtracts a part of the timeout from the deadline. The result is the *effective* deadline. No
//! key loses more time than a key with the set's timeout loses. The wheels' time is the clock's
//! time plus the *lead*. The tick of an entry is at most the effective deadline of its key plus the
//! lead.
//!
//! | Event          | Effective deadlines             | Lead         | Cost |
//! |----------------|---------------------------------|--------------|------|
//! | pressure rises | become earlier, by at most `t`  | rises by `t` | O(1) |
//! | pressure falls | become later                    | stays        | O(1) |
//!
//! # Invariants
//!
//! * The lead never falls. A change of the pressure never lowers the sum of a key's effective
//!   deadline and the lead. A rise adds `t` ticks to the lead, and subtracts at most `t` ticks from
//!   each deadline (`a_rise_takes_no_more_than_it_adds_to_the_lead`). So no entry fires too late.
//!   An entry may fire too early, and then the reaper moves it (`tests/idle/oracle.rs`,
//!   `keys_come_out_as_in_the_model`).
//! * A thread reads the lead first and the pressure second. It never sees a new lead with an old
//!   pressure, because a rise stores the pressure first. Model: `pressure_races_insertion`.
//! * After a thread has raised the lead, it lowers the armed tick to 0. So the reaper sets its
//!   alarm again. Model: `pressure_races_wait`.
//!
//! [`Reaper::shed`](super::Reaper::shed) advances wheels beyond the wheels' time. A shed changes
//! neither the lead nor the wheels' time. After a shed, some entries would fire too late. The set
//! lists these entries in [`behind`](super::behind).

use std::time::Duration;

use crate::{
    ground::sync::{AtomicU64, Ordering},
    wheel::Tick,
};

/// The limit of the lead. Ticks of a clock are below twice this limit, so the sum of such a tick
/// and the lead does not overflow.
///
/// When the lead is at the limit, a rise of the pressure does not affect the keys in the set. With
/// a tick of 1/64 ms, the lead reaches the limit after 800 million rises. Each of these rises adds
/// a [day](LONGEST) to the lead.
const MOST: u64 = 1 << 62;

/// The last tick to which a shed may advance a wheel. Because the lead is at most [`MOST`], a shed
/// can remove any key whose deadline is at most 2^62 ticks.
const SHED_MOST: Tick = Tick(MOST * 2);

/// Calculations with the pressure use at most this part of the set's timeout. Without this limit, a
/// very long timeout would soon bring the lead to [`MOST`].
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The pressure of 1 as an integer. The value is a power of two, so the conversion of a pressure is
/// exact.
const WHOLE: u64 = 1 << 60;

/// After a thread has raised the lead, it lowers the armed tick to this tick. The reaper then sets
/// its alarm again.
pub(super) const LEAD_ROSE: Tick = Tick(0);

/// Returns a timeout in nanoseconds, at most 584 years. No clock reaches that time.
pub(super) fn nanos(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)
}

/// The pressure and the lead of a set.
///
/// `Pace` has its own cache lines, because every touch reads the clock next to it. A change of the
/// pressure writes to `Pace` and must not slow touches down.
#[repr(align(128))]
pub(super) struct Pace {
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

/// The lead and the pressure that one thread has read. The pressure may be newer than the lead.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pace: &'a Pace,
    lead: u64,
    /// The number of ticks that a key with the set's timeout loses.
    taken: u64,
}

impl Pace {
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

    pub(super) fn pressure(&self) -> f64 {
        f64::from_bits(self.pressure.load(Ordering::Acquire))
    }

    /// Sets the pressure. Returns whether the lead has risen.
    pub(super) fn set_pressure(&self, pressure: f64) -> bool {
        let pressure = if pressure > 0.0 {
            pressure.min(1.0)
        } else {
            0.0
        };
        // Two threads may set the pressure at the same time. Then the later swap returns the value of
        // the earlier swap. So the later thread computes the rise from that value.
        let before = self.pressure.swap(pressure.to_bits(), Ordering::AcqRel);
        let rise = (self.taken(pressure)).saturating_sub(self.taken(f64::from_bits(before)));
        if rise > 0 {
            let raised = |lead: u64| Some(lead.saturating_add(rise).min(MOST));
            let before = (self.lead).fetch_update(Ordering::AcqRel, Ordering::Acquire, raised);
            debug_assert!(before.is_ok(), "the update returns a value");
        }
        rise > 0
    }

    /// Returns the number of ticks that a key with the set's timeout loses. Rounds the time to a
    /// nanosecond and then down to a tick.
    fn taken(&self, pressure: f64) -> u64 {
        let share = (pressure * WHOLE as f64) as u64;
        let nanos = u128::from(self.range(self.usual)) * u128::from(share) + u128::from(WHOLE / 2);
        (nanos / u128::from(WHOLE)) as u64 / self.tick
    }

    /// Returns the nanoseconds that a timeout loses under a pressure of 1. The timeout is also in
    /// nanoseconds.
    fn range(&self, timeout: u64) -> u64 {
        timeout.min(self.usual).saturating_sub(self.minimum)
    }

    /// Reads the lead, and then the pressure.
    pub(super) fn frame(&self) -> Frame<'_> {
        let lead = self.lead();
        let pressure = self.pressure();
        let taken = match pressure {
            0.0 => 0,
            pressure => self.taken(pressure),
        };
        Frame {
            pace: self,
            lead,
            taken,
        }
    }

    fn lead(&self) -> u64 {
        self.lead.load(Ordering::Acquire)
    }

    /// Converts a tick of the clock to a tick of the wheels.
    pub(super) fn ahead(&self, clock: Tick) -> Tick {
        Tick(clock.0.saturating_add(self.lead()))
    }

    /// Converts a tick of the wheels to a tick of the clock.
    pub(super) fn on_the_clock(&self, wheel: Tick) -> Tick {
        match wheel {
            Tick::NEVER => Tick::NEVER,
            Tick(wheel) => Tick(wheel.saturating_sub(self.lead())),
        }
    }
}

/// Returns whether a call of `shed` may advance wheels to this tick. For a shed, a key at a later
/// tick never expires.
pub(super) fn is_shed(wheel: Tick) -> bool {
    wheel <= SHED_MOST
}

impl Frame<'_> {
    /// Returns the effective deadline of a key, as a tick of the clock. A key that never expires
    /// keeps its deadline.
    pub(super) fn effective(&self, deadline: Tick, timeout: u64) -> Tick {
        if self.taken == 0 || deadline == Tick::NEVER {
            return deadline;
        }
        let [part, whole] = [timeout, self.pace.usual].map(|timeout| self.pace.range(timeout));
        // The calculation uses whole ticks. So when the pressure changes, no key loses more ticks
        // than a key with the set's timeout loses.
        let taken = u128::from(self.taken) * u128::from(part) / u128::from(whole);
        Tick(deadline.0.saturating_sub(taken as u64))
    }

    /// Returns the tick of the wheels at which a key is due.
    pub(super) fn wheel(&self, deadline: Tick, timeout: u64) -> Tick {
        let effective = self.effective(deadline, timeout);
        Tick(effective.0.saturating_add(self.lead))
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Returns a pace with a timeout of 60 s, a minimal timeout of 10 s and a tick of 1 ms.
    fn pace() -> Pace {
        Pace::new(Duration::from_millis(1), secs(60), secs(10))
    }

    fn effective(pace: &Pace, deadline: u64, timeout: u64) -> u64 {
        (pace.frame()).effective(Tick(deadline), timeout).0
    }

    /// Checks the table in the documentation of
    /// [`IdleSet::set_pressure`](super::super::IdleSet::set_pressure).
    #[test]
    fn pressure_takes_its_part_of_a_timeout() {
        let pace = pace();
        for (pressure, expected) in [
            (0.0, [5, 10, 30, 60, 300]),
            (0.5, [5, 10, 20, 35, 275]),
            (0.7, [5, 10, 16, 25, 265]),
            (1.0, [5, 10, 10, 10, 250]),
        ] {
            pace.set_pressure(pressure);
            let left = [5, 10, 30, 60, 300]
                .map(|timeout| effective(&pace, timeout * 1_000, timeout * SECOND));
            assert_eq!(left, expected.map(|secs| secs * 1_000), "{pressure}");
        }
    }

    #[test]
    fn a_pressure_is_from_0_to_1() {
        let pace = pace();
        for (given, expected) in [
            (0.001, 0.001_f64),
            (7.0, 1.0),
            (f64::NAN, 0.0),
            (f64::INFINITY, 1.0),
            (-0.0, 0.0),
            (-1.0, 0.0),
        ] {
            pace.set_pressure(given);
            assert_eq!(pace.pressure().to_bits(), expected.to_bits(), "{given}");
        }
    }

    #[test]
    fn what_never_comes_stays_so() {
        let pace = Pace::new(Duration::from_nanos(1), Duration::MAX, Duration::ZERO);
        assert!(pace.set_pressure(1.0));
        let never = Tick::NEVER;
        assert_eq!(pace.frame().effective(never, u64::MAX), never);
        assert_eq!(pace.frame().wheel(never, u64::MAX), never);
        assert_eq!(pace.on_the_clock(never), never);
    }

    #[test]
    fn the_lead_stops_before_it_overflows() {
        let pace = Pace::new(Duration::from_nanos(1), Duration::MAX, Duration::ZERO);
        for _ in 0..MOST / nanos(LONGEST) + 1 {
            pace.set_pressure(1.0);
            pace.set_pressure(0.0);
        }
        assert_eq!(pace.lead(), MOST);
        assert_eq!(pace.frame().wheel(Tick(7), 7), Tick(MOST + 7));
    }

    /// A key keeps the part of its timeout that exceeds a day.
    #[test]
    fn a_set_of_more_than_a_day_has_the_pressure_of_one() {
        let day = nanos(LONGEST) / 1_000_000;
        let pace = Pace::new(Duration::from_millis(1), Duration::MAX, secs(10));
        pace.set_pressure(1.0);
        assert_eq!(effective(&pace, 2 * day, 2 * nanos(LONGEST)), day + 10_000);
        assert_eq!(effective(&pace, 60_000, 60 * SECOND), 10_000);
        let pace = Pace::new(Duration::from_millis(1), Duration::MAX, 2 * LONGEST);
        assert!(!pace.set_pressure(1.0));
        assert_eq!(effective(&pace, 60_000, 60 * SECOND), 60_000);
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
            let pace = Pace::new(tick_length, usual_time, least);
            let deadline = timeout.div_ceil(tick);
            let mut last = pace.frame().wheel(Tick(deadline), timeout);
            for pressure in pressures {
                pace.set_pressure(pressure);
                let entry = pace.frame().wheel(Tick(deadline), timeout);
                prop_assert!(entry >= last);
                last = entry;
                // No key loses more than its share. A key keeps the minimal timeout, or its own
                // timeout if that timeout is shorter.
                let left = effective(&pace, deadline, timeout) * tick;
                let range = timeout.min(usual).saturating_sub(minimum) as f64;
                prop_assert!(left as f64 >= timeout as f64 - pressure * range - 1.0);
                prop_assert!(left >= timeout.min(minimum));
            }
        }
    }
}

//! How far the wheels run ahead of the clock, and what pressure takes from a deadline.
//!
//! A record keeps the deadline that its last touch gave it, and its timeout. Pressure takes a part of the timeout, up to
//! that of the set: what is left is the *effective* deadline. An entry of a wheel is at the effective deadline plus the
//! *lead*, or earlier. The wheels' time is the clock's plus the lead.
//!
//! | Event          | Effective deadlines   | Lead         | Cost |
//! |----------------|-----------------------|--------------|------|
//! | pressure rises | earlier, by up to `t` | rises by `t` | O(1) |
//! | pressure falls | later                 | stays        | O(1) |
//!
//! # Invariants
//!
//! * The lead never falls. The sum of a key's effective deadline and the lead never falls either: a rise of the pressure
//!   takes at most `t` ticks from each key (`a_rise_takes_no_more_than_it_adds_to_the_lead`). So an entry is never too late.
//!   It may be too early. The reaper then moves it (`tests/idle/oracle.rs`).
//! * A thread that reads the lead and then the pressure sees no lead without its pressure: a rise stores the pressure first.
//!   Model: `pressure_races_insertion`.
//! * A thread that raises the lead lowers the armed tick to 0 afterwards, as a touch does for an early deadline. So the
//!   reaper sets its alarm anew. Model: `pressure_races_wait`.
//!
//! [`Reaper::shed`](super::Reaper::shed) advances wheels to ticks that the wheels' time has not reached. That changes neither
//! the lead nor the wheels' time. [`behind`](super::behind) has the entries that come too late for their wheels then.

use std::time::Duration;

use crate::{
    ground::sync::{AtomicU64, Ordering},
    wheel::Tick,
};

/// The lead stops here, so that no sum of ticks overflows: a clock reaches less than twice as many ticks. Once the lead is
/// here, a rise of the pressure has no effect on the keys that are in the set. With a tick of 1/64 ms, that takes 800 million
/// rises of the [longest](LONGEST) range.
const MOST: u64 = 1 << 62;

/// A shed does not advance a wheel beyond this. No lead makes a key with a deadline of 2^62 ticks come later.
const SHED_MOST: Tick = Tick(MOST * 2);

/// For pressure, a timeout of the set that is longer counts as this one: the lead would otherwise soon be at its end.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The pressure of 1 in a [`Frame`]. A power of two, so that a pressure loses nothing.
const WHOLE: u64 = 1 << 60;

/// What a thread lowers the armed tick to when it has raised the lead: the reaper looks again, and sets its alarm anew.
pub(super) const LEAD_ROSE: Tick = Tick(0);

/// Returns a timeout in nanoseconds. 584 years stand for all that is longer: no clock reaches that.
pub(super) fn nanos(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)
}

/// On cache lines of its own: a change of the pressure writes to it, and every touch reads the clock beside it.
#[repr(align(128))]
pub(super) struct Pace {
    /// The length of a tick, in nanoseconds.
    tick: u64,
    /// The timeout of the set, in nanoseconds; [`LONGEST`] if it is longer.
    usual: u64,
    /// What pressure leaves of a timeout, in nanoseconds.
    minimum: u64,
    /// The bits of an `f64` from 0 to 1.
    pressure: AtomicU64,
    lead: AtomicU64,
}

/// The lead and the pressure at one time. The pressure may be later than the lead.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pace: &'a Pace,
    lead: u64,
    /// What the pressure takes from a key with the timeout of the set, in ticks.
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
        // Of two threads, the second adds the difference to what the first has set.
        let before = self.pressure.swap(pressure.to_bits(), Ordering::AcqRel);
        let rise = (self.taken(pressure)).saturating_sub(self.taken(f64::from_bits(before)));
        if rise > 0 {
            let raised = |lead: u64| Some(lead.saturating_add(rise).min(MOST));
            let before = (self.lead).fetch_update(Ordering::AcqRel, Ordering::Acquire, raised);
            debug_assert!(before.is_ok(), "the update never refuses");
        }
        rise > 0
    }

    /// Returns what a pressure takes from a key with the timeout of the set, in ticks. Rounds to a nanosecond, and then
    /// down to a tick.
    fn taken(&self, pressure: f64) -> u64 {
        let share = (pressure * WHOLE as f64) as u64;
        let nanos = u128::from(self.range(self.usual)) * u128::from(share) + u128::from(WHOLE / 2);
        (nanos / u128::from(WHOLE)) as u64 / self.tick
    }

    /// Returns what a pressure of 1 takes from a timeout, both in nanoseconds.
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

    /// Returns the time of the wheels, given that of the clock.
    pub(super) fn ahead(&self, clock: Tick) -> Tick {
        Tick(clock.0.saturating_add(self.lead()))
    }

    /// Returns when the clock comes to a tick of the wheels.
    pub(super) fn on_the_clock(&self, wheel: Tick) -> Tick {
        match wheel {
            Tick::NEVER => Tick::NEVER,
            Tick(wheel) => Tick(wheel.saturating_sub(self.lead())),
        }
    }
}

/// Returns whether a shed may advance wheels to this tick. Keys that are due later count as keys that are never due.
pub(super) fn is_shed(wheel: Tick) -> bool {
    wheel <= SHED_MOST
}

impl Frame<'_> {
    /// Returns the effective deadline of a key, on the clock. A deadline that never comes stays so.
    pub(super) fn effective(&self, deadline: Tick, timeout: u64) -> Tick {
        if self.taken == 0 || deadline == Tick::NEVER {
            return deadline;
        }
        let [part, whole] = [timeout, self.pace.usual].map(|timeout| self.pace.range(timeout));
        // In whole ticks of what is taken at the most: so the difference of two pressures is no larger for this key.
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

    /// A set of 60 s, 10 at the least, with a tick of 1 ms.
    fn pace() -> Pace {
        Pace::new(Duration::from_millis(1), secs(60), secs(10))
    }

    fn effective(pace: &Pace, deadline: u64, timeout: u64) -> u64 {
        (pace.frame()).effective(Tick(deadline), timeout).0
    }

    /// The table of [`IdleSet::set_pressure`](super::super::IdleSet::set_pressure).
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

    /// A key keeps what its timeout has beyond a day.
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
        /// Also while a rise is under way, when the lead has yet to follow.
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
                // Never early, and no key has less than the minimum or its own timeout.
                let left = effective(&pace, deadline, timeout) * tick;
                let range = timeout.min(usual).saturating_sub(minimum) as f64;
                prop_assert!(left as f64 >= timeout as f64 - pressure * range - 1.0);
                prop_assert!(left >= timeout.min(minimum));
            }
        }
    }
}

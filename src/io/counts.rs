//! The limits of a stream, and when the operations that wait reach them.
//!
//! A limit *counts* for a direction from the first pending poll of an operation to its end. While
//! it counts, there is a moment at which it is reached. So an operation waits for a limit as long as
//! its direction has such a moment.

use super::{
    LimitExceeded, Limits,
    direction::Direction,
    moment::{Moment, Span},
    now::Now,
    rate::Meter,
};

/// Whether a rate measures an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A read or a write, or the wait for bytes in a buffer.
    Transfer,
    /// A flush or a shutdown, which moves bytes that the stream cannot count.
    Flush,
}

#[derive(Debug)]
pub(super) struct Counts {
    /// Of the reads, and of the writes.
    sides: [Side; 2],
    idle: Span,
    /// `None` without rates: most streams have none, and take less memory so.
    rates: Option<Box<[Option<Meter>; 2]>>,
}

/// The limits of a direction but for its rate.
#[derive(Debug)]
struct Side {
    timeout: Span,
    timeout_due: Moment,
    idle_due: Moment,
}

impl Side {
    /// Returns whether a limit would begin to count if an operation waited.
    #[inline]
    fn is_uncounted(&self, idle: Span) -> bool {
        self.timeout_due == Moment::NEVER && self.timeout != Span::ENDLESS
            || self.idle_due == Moment::NEVER && idle != Span::ENDLESS
    }
}

impl Counts {
    /// Creates counts without a limit.
    pub(super) fn new() -> Self {
        let side = || Side {
            timeout: Span::ENDLESS,
            timeout_due: Moment::NEVER,
            idle_due: Moment::NEVER,
        };
        Self {
            sides: [side(), side()],
            idle: Span::ENDLESS,
            rates: None,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        let rate = |direction| self.meter(direction).map(Meter::rate);
        Limits {
            read_timeout: self.side(Direction::Read).timeout.to_limit(),
            write_timeout: self.side(Direction::Write).timeout.to_limit(),
            idle_timeout: self.idle.to_limit(),
            min_read_rate: rate(Direction::Read),
            min_write_rate: rate(Direction::Write),
        }
    }

    /// Exchanges the timeout, which begins to count again.
    pub(super) fn set_timeout(&mut self, direction: Direction, timeout: Span) {
        let side = self.side_mut(direction);
        side.timeout = timeout;
        side.timeout_due = Moment::NEVER;
    }

    /// Exchanges the limits that differ. The others go on counting. Returns for which directions a
    /// limit differs.
    pub(super) fn set(&mut self, limits: Limits) -> [bool; 2] {
        let idle = Span::limit(limits.idle_timeout);
        let idle_differs = idle != self.idle;
        self.idle = idle;
        Direction::BOTH.map(|direction| {
            let (timeout, rate) = match direction {
                Direction::Read => (limits.read_timeout, limits.min_read_rate),
                Direction::Write => (limits.write_timeout, limits.min_write_rate),
            };
            let timeout = Span::limit(timeout);
            let timeout_differs = timeout != self.side(direction).timeout;
            if timeout_differs {
                self.set_timeout(direction, timeout);
            }
            if idle_differs {
                self.side_mut(direction).idle_due = Moment::NEVER;
            }
            let meter = rate.map(Meter::new);
            let measured = self.meter(direction).map(Meter::rate);
            let rate_differs = meter.as_ref().map(Meter::rate) != measured;
            if rate_differs {
                self.set_meter(direction, meter);
            }
            timeout_differs || idle_differs || rate_differs
        })
    }

    fn set_meter(&mut self, direction: Direction, meter: Option<Meter>) {
        let mut rates = self.rates.take().unwrap_or_default();
        rates[direction as usize] = meter;
        self.rates = rates.iter().any(Option::is_some).then_some(rates);
    }

    /// Returns whether an operation of a direction waits for a limit.
    #[inline]
    pub(super) fn waits(&self, direction: Direction) -> bool {
        self.due(direction) != Moment::NEVER
    }

    /// Returns when an operation of a direction reaches the first of its limits that count.
    #[inline]
    fn due(&self, direction: Direction) -> Moment {
        let side = self.side(direction);
        let due = side.timeout_due.min(side.idle_due);
        match self.meter(direction) {
            Some(meter) => due.min(meter.due()),
            None => due,
        }
    }

    /// An operation waits: returns when it reaches the first of its limits.
    #[inline]
    pub(super) fn wait(&mut self, direction: Direction, kind: Kind, now: &Now<'_>) -> Moment {
        let idle = self.idle;
        if self.side(direction).is_uncounted(idle) {
            let now = now.get(self.shortest());
            let side = self.side_mut(direction);
            if side.timeout_due == Moment::NEVER {
                side.timeout_due = now.after(side.timeout);
            }
            if side.idle_due == Moment::NEVER {
                side.idle_due = now.after(idle);
            }
        }
        if let Some(meter) = self.meter_mut(direction) {
            match kind {
                Kind::Transfer => meter.run(now),
                // After a write that was abandoned.
                Kind::Flush => meter.pause(now),
            }
        }
        self.due(direction)
    }

    /// Returns the limit that an operation has reached at `due`.
    #[cold]
    pub(super) fn exceeded(&mut self, direction: Direction, due: Moment) -> LimitExceeded {
        let side = self.side(direction);
        if side.timeout_due == due {
            let timeout = side.timeout.duration();
            return match direction {
                Direction::Read => LimitExceeded::ReadTimeout(timeout),
                Direction::Write => LimitExceeded::WriteTimeout(timeout),
            };
        }
        if side.idle_due == due {
            return LimitExceeded::Idle(self.idle.duration());
        }
        let meter = self.meter_mut(direction);
        let meter = meter.expect("one of the limits is reached");
        meter.close();
        match direction {
            Direction::Read => LimitExceeded::ReadRate(meter.rate()),
            Direction::Write => LimitExceeded::WriteRate(meter.rate()),
        }
    }

    /// No operation of a direction waits any more.
    #[inline]
    pub(super) fn end_wait(&mut self, direction: Direction, now: &Now<'_>) {
        let side = self.side_mut(direction);
        side.timeout_due = Moment::NEVER;
        side.idle_due = Moment::NEVER;
        if let Some(meter) = self.meter_mut(direction) {
            meter.pause(now);
        }
    }

    /// Bytes have moved in a direction.
    #[inline]
    pub(super) fn moved(&mut self, direction: Direction, bytes: usize, now: &Now<'_>) {
        if bytes == 0 {
            return;
        }
        let other = direction.other();
        if self.side(other).idle_due != Moment::NEVER {
            let due = now.get(self.shortest()).after(self.idle);
            self.side_mut(other).idle_due = due;
        }
        if let Some(meter) = self.meter_mut(direction) {
            meter.count(bytes);
        }
        if let Some(meter) = self.meter_mut(other) {
            meter.other_moved();
        }
    }

    /// Returns the shortest limit. A rate counts as none: each read of the time adds to what its
    /// window has waited, so that a later time would add up.
    #[inline]
    fn shortest(&self) -> Span {
        if self.rates.is_some() {
            return Span::ZERO;
        }
        let [reads, writes] = &self.sides;
        self.idle.min(reads.timeout).min(writes.timeout)
    }

    #[inline]
    fn side(&self, direction: Direction) -> &Side {
        &self.sides[direction as usize]
    }

    #[inline]
    fn side_mut(&mut self, direction: Direction) -> &mut Side {
        &mut self.sides[direction as usize]
    }

    #[inline]
    fn meter(&self, direction: Direction) -> Option<&Meter> {
        self.rates.as_ref()?[direction as usize].as_ref()
    }

    #[inline]
    fn meter_mut(&mut self, direction: Direction) -> Option<&mut Meter> {
        self.rates.as_mut()?[direction as usize].as_mut()
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::io::MinRate;

    /// A coarse timer reads the time for this limit.
    #[test]
    fn the_shortest_limit_is_that_of_either_direction_and_zero_with_a_rate() {
        const SECOND: Duration = Duration::from_secs(1);
        let limits = Limits::new();
        let rate = MinRate::new(1, 9 * SECOND);
        let shortest = |limits| {
            let mut counts = Counts::new();
            counts.set(limits);
            counts.shortest().to_limit()
        };
        assert_eq!(shortest(limits), None);
        let limits = limits.idle_timeout(7 * SECOND);
        assert_eq!(shortest(limits), Some(7 * SECOND));
        let limits = limits.write_timeout(5 * SECOND);
        assert_eq!(shortest(limits), Some(5 * SECOND));
        let limits = limits.read_timeout(3 * SECOND);
        assert_eq!(shortest(limits), Some(3 * SECOND));
        assert_eq!(shortest(limits.min_write_rate(rate)), Some(Duration::ZERO));
        assert_eq!(shortest(limits.min_read_rate(rate)), Some(Duration::ZERO));
    }
}

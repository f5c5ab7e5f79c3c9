//! The limits of a stream, and the moments at which waiting operations reach them.
//!
//! A limit *counts* for a direction while an operation in that direction waits. It starts at the first pending poll
//! of the operation, and stops when the operation ends.
//! While a limit counts, the direction stores the moment at which the operation reaches the limit.

use super::{
    LimitExceeded, Limits,
    direction::Direction,
    moment::{Moment, Span},
    now::Now,
    rate::Meter,
};

/// The kind of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A read, a write, or a read into a buffer. Minimum rates measure transfers.
    Transfer,
    /// A flush or a shutdown. Minimum rates do not measure it, because the stream cannot count its bytes.
    Flush,
}

#[derive(Debug)]
pub(super) struct Counts {
    /// The side of the reads and the side of the writes.
    sides: [Side; 2],
    /// The idle timeout, which both directions share.
    idle: Span,
    /// The meters of the minimum rates. A stream without rates has `None`, which saves memory.
    rates: Option<Box<[Option<Meter>; 2]>>,
}

/// The limits of one direction, without its minimum rate.
#[derive(Debug)]
struct Side {
    timeout: Span,
    /// The moment at which the operation reaches the timeout, or `NEVER` if no operation waits.
    timeout_due: Moment,
    /// The moment at which the operation reaches the idle timeout, or `NEVER` if no operation waits.
    idle_due: Moment,
}

impl Side {
    /// Returns whether the direction has a limit that has not started to count.
    #[inline]
    fn is_uncounted(&self, idle: Span) -> bool {
        self.timeout_due == Moment::NEVER && self.timeout != Span::ENDLESS
            || self.idle_due == Moment::NEVER && idle != Span::ENDLESS
    }
}

impl Counts {
    /// Creates the counts of a stream without limits.
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

    /// Returns all limits.
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

    /// Replaces the limits that differ from the old limits. The unchanged limits continue to count. For each
    /// direction, the result is true if one of its limits differs.
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
            let side = self.side_mut(direction);
            let timeout_differs = timeout != side.timeout;
            if timeout_differs {
                side.timeout = timeout;
                side.timeout_due = Moment::NEVER;
            }
            if idle_differs {
                side.idle_due = Moment::NEVER;
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

    /// Returns whether a limit counts for an operation of `direction`.
    #[inline]
    pub(super) fn waits(&self, direction: Direction) -> bool {
        self.due(direction) != Moment::NEVER
    }

    /// Returns the moment at which an operation of `direction` reaches its first limit. Returns `NEVER` if no
    /// limit counts.
    #[inline]
    fn due(&self, direction: Direction) -> Moment {
        let side = self.side(direction);
        let due = side.timeout_due.min(side.idle_due);
        match self.meter(direction) {
            Some(meter) => due.min(meter.due()),
            None => due,
        }
    }

    /// Starts or continues the wait of an operation. Returns the moment at which the operation reaches its
    /// first limit.
    #[inline]
    pub(super) fn wait(&mut self, direction: Direction, kind: Kind, now: &Now) -> Moment {
        let idle = self.idle;
        if self.side(direction).is_uncounted(idle) {
            let now = now.get();
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
                // A canceled write may have left the meter running.
                Kind::Flush => meter.pause(now),
            }
        }
        self.due(direction)
    }

    /// Returns the limit that an operation of `direction` has reached at `due`.
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
            return LimitExceeded::IdleTimeout(self.idle.duration());
        }
        let meter = self.meter_mut(direction);
        let meter = meter.expect("the operation must have reached a limit");
        meter.close();
        match direction {
            Direction::Read => LimitExceeded::MinReadRate(meter.rate()),
            Direction::Write => LimitExceeded::MinWriteRate(meter.rate()),
        }
    }

    /// Ends the wait of the operation of `direction`.
    #[inline]
    pub(super) fn end_wait(&mut self, direction: Direction, now: &Now) {
        let side = self.side_mut(direction);
        side.timeout_due = Moment::NEVER;
        side.idle_due = Moment::NEVER;
        if let Some(meter) = self.meter_mut(direction) {
            meter.pause(now);
        }
    }

    /// Counts bytes that have moved in `direction`.
    #[inline]
    pub(super) fn moved(&mut self, direction: Direction, bytes: usize, now: &Now) {
        if bytes == 0 {
            return;
        }
        let other = direction.other();
        if self.side(other).idle_due != Moment::NEVER {
            let due = now.get().after(self.idle);
            self.side_mut(other).idle_due = due;
        }
        if let Some(meter) = self.meter_mut(direction) {
            meter.count(bytes);
        }
        if let Some(meter) = self.meter_mut(other) {
            meter.other_moved();
        }
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

//! The place where the driver waits between two turns, with its alarm.
//!
//! The alarm wakes the driver at the armed tick. Registrations set the alarm to an earlier instant. The thread
//! that takes a turn takes the [`Turn`] out of this place, and sets the alarm when it puts the turn back.
//!
//! * A registration lowers the armed tick before it takes the lock of [`Parking`]. The armed tick is read
//!   under this lock whenever the alarm is set. So the last thread that takes the lock sets the alarm for the
//!   lowest tick.
//! * While a thread takes a turn, registrations leave the alarm alone. The thread sets the alarm afterwards.
//!   So it also misses no alarm that goes off during its turn.
//!
//! Models: `timer::loom_tests::alarm_goes_off_while_it_is_set`, `turn_races_turn`, `runtime_end_races_rearm`,
//! `runtime_end_races_turn` and all models of [`arming`](crate::driver::arming).
//!
//! The code that runs under the lock belongs to tokio. No user code runs under the lock, with one exception.
//! With `tokio_unstable` and tokio's feature `tracing`, tokio emits its own events under the lock. If a subscriber
//! panics, the alarm is not set, and the driver's task sets the alarm again. Test:
//! `timer::tests::an_alarm_that_panics_is_set_again`.

use std::{task::Waker, thread};

use crate::{
    driver::{alarm::Alarm, arming::Arming, clock::Clock, turn::Turn},
    ground::{sync::Mutex, unwind},
};

/// The armed tick, the alarm, and the state of the driver between two turns.
pub(crate) struct Parking {
    pub(crate) arming: Arming,
    pub(crate) clock: Clock,
    /// `None` before the driver is made, and after it was dropped.
    parked: Mutex<Option<Parked>>,
}

/// The state that the lock protects.
struct Parked {
    alarm: Box<dyn Alarm>,
    /// The waker that the alarm wakes.
    waker: Waker,
    /// `None` while a thread takes the turn.
    turn: Option<Turn>,
}

impl Parking {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            arming: Arming::new(),
            clock,
            parked: Mutex::new(None),
        }
    }

    /// Provides the alarm, the waker that it wakes, and the first turn.
    pub(crate) fn open(&self, alarm: Box<dyn Alarm>, waker: Waker, turn: Turn) {
        let turn = Some(turn);
        *self.parked.lock() = Some(Parked { alarm, waker, turn });
    }

    /// Returns whether the armed tick is reached, so that the driver must take another turn.
    pub(crate) fn is_due(&self) -> bool {
        self.arming.tick() <= self.clock.now()
    }

    /// Takes the turn, or returns `None` if another thread has taken it.
    pub(crate) fn begin(&self) -> Option<Turn> {
        self.parked.lock().as_mut()?.turn.take()
    }

    /// Takes the turn without waiting for the lock.
    ///
    /// Returns `None` if another thread has taken the turn, or if a thread sets the alarm at this moment. It
    /// may be the calling thread, because an alarm may go off while it is set.
    pub(crate) fn try_begin(&self) -> Option<Turn> {
        self.parked.try_lock()?.as_mut()?.turn.take()
    }

    /// Puts the turn back, and sets the alarm. Drops the turn if the driver was dropped in the meantime. Returns
    /// the panic if setting the alarm has panicked.
    pub(crate) fn end(&self, turn: Turn) -> thread::Result<()> {
        // Rust drops arguments after local variables. So a turn that is not put back is dropped after the lock
        // is released. It keeps parts of the runtime alive.
        let mut parked = self.parked.lock();
        match &mut *parked {
            Some(parked) => {
                parked.turn = Some(turn);
                self.set_alarm(parked)
            }
            None => Ok(()),
        }
    }

    /// Sets the alarm for a registration that has lowered the armed tick. Returns the panic if setting the alarm
    /// has panicked.
    ///
    /// Does nothing while a thread takes a turn.
    #[cold]
    pub(crate) fn rearm(&self) -> thread::Result<()> {
        match &mut *self.parked.lock() {
            Some(parked) if parked.turn.is_some() => self.set_alarm(parked),
            _ => Ok(()),
        }
    }

    /// Sets the alarm for the armed tick, if the clock can reach that tick.
    fn set_alarm(&self, parked: &mut Parked) -> thread::Result<()> {
        match self.clock.instant(self.arming.tick()) {
            Some(instant) => unwind::catch(|| parked.alarm.set(instant, &parked.waker)),
            None => Ok(()),
        }
    }

    /// Drops the alarm and the turn, because they may keep parts of the runtime alive.
    ///
    /// The driver calls this function when it is dropped.
    pub(crate) fn close(&self) {
        let closed = self.parked.lock().take();
        drop(closed);
    }
}

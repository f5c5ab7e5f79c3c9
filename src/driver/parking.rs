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

use tokio::time::Instant;

use crate::{
    driver::{alarm::Alarm, turn::Turn},
    ground::{sync::Mutex, unwind},
};

/// The alarm, and the state of the driver between two turns.
pub(crate) struct Parking(Mutex<Parked>);

/// The state that the lock protects.
#[derive(Default)]
struct Parked {
    /// The alarm, and the waker that it wakes. `None` before the driver is made, and after it was dropped.
    alarm: Option<(Box<dyn Alarm>, Waker)>,
    /// The state of the driver. `None` while a thread takes a turn, and whenever there is no alarm.
    turn: Option<Turn>,
}

impl Parking {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Parked::default()))
    }

    /// Provides the alarm, the waker that it wakes, and the first turn.
    pub(crate) fn open(&self, alarm: Box<dyn Alarm>, waker: Waker, turn: Turn) {
        *self.0.lock() = Parked {
            alarm: Some((alarm, waker)),
            turn: Some(turn),
        };
    }

    /// Takes the turn, or returns `None` if another thread has taken it.
    pub(crate) fn begin(&self) -> Option<Turn> {
        self.0.lock().turn.take()
    }

    /// Takes the turn without waiting for the lock.
    ///
    /// Returns `None` if another thread has taken the turn, or if a thread sets the alarm at this moment. It
    /// may be the calling thread, because an alarm may go off while it is set.
    pub(crate) fn try_begin(&self) -> Option<Turn> {
        self.0.try_lock()?.turn.take()
    }

    /// Puts the turn back, and sets the alarm. Drops the turn if the driver was dropped in the meantime. Returns
    /// the panic if setting the alarm has panicked.
    ///
    /// `armed` returns the instant of the armed tick. It returns `None` if that instant is beyond the clock's
    /// reach. In this case, the function does not set the alarm.
    pub(crate) fn end(
        &self,
        turn: Turn,
        armed: impl FnOnce() -> Option<Instant>,
    ) -> thread::Result<()> {
        // Rust drops arguments after local variables. So a turn that is not put back is dropped after the lock
        // is released. It keeps parts of the runtime alive.
        let mut parked = self.0.lock();
        if parked.alarm.is_none() {
            return Ok(());
        }
        parked.turn = Some(turn);
        parked.set_alarm(armed)
    }

    /// Sets the alarm for a registration that has lowered the armed tick. Returns the panic if setting the alarm
    /// has panicked.
    ///
    /// Does nothing while a thread takes a turn.
    #[cold]
    pub(crate) fn rearm(&self, armed: impl FnOnce() -> Option<Instant>) -> thread::Result<()> {
        let mut parked = self.0.lock();
        match parked.turn {
            Some(_) => parked.set_alarm(armed),
            None => Ok(()),
        }
    }

    /// Drops the alarm and the turn, because they may keep parts of the runtime alive.
    ///
    /// The driver calls this function when it is dropped.
    pub(crate) fn close(&self) {
        let mut parked = self.0.lock();
        let (alarm, turn) = (parked.alarm.take(), parked.turn.take());
        drop(parked);
        drop((alarm, turn));
    }
}

impl Parked {
    fn set_alarm(&mut self, armed: impl FnOnce() -> Option<Instant>) -> thread::Result<()> {
        match (armed(), &mut self.alarm) {
            (Some(instant), Some((alarm, waker))) => unwind::catch(|| alarm.set(instant, waker)),
            _ => Ok(()),
        }
    }
}

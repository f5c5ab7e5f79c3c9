//! The oracle: the expected state of each registration.
//!
//! The program reports its acts to the oracle, and each waker reports its wakes. The oracle knows nothing of
//! wheels and shards. It computes ticks by itself, and describes each error in words.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem::{replace, take},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::guest::Guest;
use crate::driver::clock::manual::Manual;

/// The number of seconds that a clock can reach: 292 years minus an hour and a second.
const REACH: u64 = ((1 << 63) - 3_600_000_000_000) / 1_000_000_000;

/// One registration of a future. It begins with the poll that registers the future.
pub(super) struct Registration {
    pub(super) guest: Arc<Guest>,
    deadline: Instant,
    /// The instant at which the deadline expires, if the clock reaches it.
    due: Option<Instant>,
    /// The instant at which the deadline was set.
    set_at: Instant,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The registration waits until it fires.
    Waits,
    /// The driver or the end of the timer has removed the registration from the wheel. The registration must be
    /// woken before the step ends.
    Out,
    Woken,
    /// The future gave up its registration while the timer was closing. The registration may or may not be woken.
    GivenUp,
}

/// Whether a timer is open, is closing, or is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    Closing,
    Closed,
}

/// Identifies a registration. Several guests may register a waker in turn. The registration has the number of the
/// first of these guests.
pub(super) type Number = u64;

pub(super) struct Ledger {
    pub(super) clock: Manual,
    pub(super) start: Instant,
    pub(super) tick: Duration,
    registrations: BTreeMap<Number, Registration>,
    /// For each guest, the registration that has the guest's waker.
    of_guest: HashMap<u64, Number>,
    /// The guests whose wakers must all be dropped when the step ends.
    gone: Vec<Arc<Guest>>,
    /// The guests whose wakers wait for the end of the runtime.
    orphans: BTreeMap<u64, Arc<Guest>>,
    pub(super) registered: u64,
    pub(super) resets: u64,
    pub(super) fired: u64,
    pub(super) cancelled: u64,
    pub(super) phase: Phase,
    /// Whether the driver takes a turn.
    pub(super) in_batch: bool,
    /// Whether the driver has yielded before it fired all due entries.
    pub(super) between_batches: bool,
    /// Whether the driver was dropped in the middle of a batch. The timer counts the entries of the batch that had
    /// fired. But the oracle cannot know which entries had fired.
    pub(super) closed_amid_a_batch: bool,
    /// The instant since which the driver has been on time, or `None` if the driver is late.
    pub(super) on_time_since: Option<Instant>,
    failure: Option<String>,
    pub(super) outcomes: BTreeSet<&'static str>,
}

impl Ledger {
    pub(super) fn new(clock: Manual, start: Instant, tick: Duration) -> Self {
        Self {
            clock,
            start,
            tick,
            registrations: BTreeMap::new(),
            of_guest: HashMap::new(),
            gone: Vec::new(),
            orphans: BTreeMap::new(),
            registered: 0,
            resets: 0,
            fired: 0,
            cancelled: 0,
            phase: Phase::Open,
            in_batch: false,
            between_batches: false,
            closed_amid_a_batch: false,
            on_time_since: None,
            failure: None,
            outcomes: BTreeSet::new(),
        }
    }

    pub(super) fn fail(&mut self, what: impl Into<String>) {
        self.failure.get_or_insert(what.into());
    }

    pub(super) fn comes_to(&mut self, outcome: &'static str) {
        self.outcomes.insert(outcome);
    }

    /// Returns the first error, if there is one.
    pub(super) fn verdict(&mut self) -> Result<(), String> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Returns the instant at which a deadline expires: the first start of a tick that is not before the deadline.
    /// Returns `None` if the clock does not reach that instant.
    pub(super) fn due(&self, deadline: Instant) -> Option<Instant> {
        const SECOND: u128 = 1_000_000_000;
        let since = deadline.saturating_duration_since(self.start);
        let nanos = since.as_nanos().next_multiple_of(self.tick.as_nanos());
        let due = Duration::new((nanos / SECOND) as u64, (nanos % SECOND) as u32);
        (since.as_secs() < REACH).then(|| self.start + due)
    }

    /// Records a pending poll of a future that was not registered before.
    pub(super) fn registers(&mut self, guest: Arc<Guest>, deadline: Instant) -> Number {
        let (number, now) = (guest.number, self.clock.now());
        self.of_guest.insert(number, number);
        self.registered += 1;
        // A deadline that has just passed is registered for the next tick.
        let due = self.due(deadline.max(now + Duration::from_nanos(1)));
        if self.in_batch {
            self.comes_to("a registration during a batch");
            if deadline <= now {
                self.comes_to("a registration during a batch that is due with it");
            }
        } else if self.between_batches {
            self.comes_to("a registration between two batches");
        }
        if due.is_none() {
            self.comes_to("a deadline beyond the clock's reach");
        }
        let registration = Registration {
            guest,
            deadline,
            due,
            set_at: now,
            state: State::Waits,
        };
        self.registrations.insert(number, registration);
        number
    }

    /// Returns the registration, if it still waits according to the oracle.
    pub(super) fn waiting(&mut self, number: Option<Number>) -> Option<&mut Registration> {
        let registration = self.registrations.get_mut(&number?);
        registration.filter(|registration| registration.state == State::Waits)
    }

    fn all_waiting(&self) -> impl Iterator<Item = &Registration> {
        let registrations = self.registrations.values();
        registrations.filter(|registration| registration.state == State::Waits)
    }

    /// Records that the waker of another guest may be registered soon.
    pub(super) fn may_replace(&mut self, number: Number, guest: &Guest) {
        self.of_guest.insert(guest.number, number);
    }

    /// Records that no waker of a guest is registered from now on.
    pub(super) fn leaves(&mut self, guest: Arc<Guest>) {
        self.of_guest.remove(&guest.number);
        self.gone.push(guest);
    }

    /// Records that the waker of another guest is registered now.
    pub(super) fn replaces(&mut self, number: Number, guest: Arc<Guest>) {
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        let new = guest.number;
        let old = replace(&mut registration.guest, guest);
        if old.number != new {
            self.leaves(old);
            self.of_guest.insert(new, number);
        }
    }

    /// Records that a future waits for the end of the runtime, because its timer has ended.
    pub(super) fn waits_for_runtime(&mut self, guest: Arc<Guest>) {
        self.comes_to("a future that waits for the end of its runtime");
        let registered = self.of_guest.remove(&guest.number);
        // The same guest may have registered a waker, which the end of the timer has woken.
        let registration = registered.and_then(|number| self.registrations.get(&number));
        if let Some(same) = registration.filter(|last| last.guest.number == guest.number) {
            if same.state != State::Woken {
                self.fail("the end of the timer did not wake a future");
            }
            self.registrations.remove(&registered.unwrap_or_default());
        }
        self.orphans.insert(guest.number, guest);
    }

    /// Records a reset. The registration may have fired already.
    pub(super) fn resets(&mut self, number: Number, deadline: Instant) {
        self.resets += 1;
        if self.in_batch {
            self.comes_to("a reset during a batch");
        }
        let (due, now) = (self.due(deadline), self.clock.now());
        if let Some(registration) = self.waiting(Some(number)) {
            registration.deadline = deadline;
            registration.due = due;
            registration.set_at = now;
        }
    }

    /// Records that the driver or the end of the timer has removed a registration from the wheel.
    pub(super) fn comes_out(&mut self, number: Number) {
        let now = self.clock.now();
        let Some(registration) = self.waiting(Some(number)) else {
            return;
        };
        registration.state = State::Out;
        let early = registration.deadline.saturating_duration_since(now);
        if self.phase != Phase::Open {
            self.cancelled += 1;
            return;
        }
        self.fired += 1;
        if !early.is_zero() {
            self.fail(format!("registration {number} fired {early:?} early"));
        }
    }

    /// Records that a future gives its registration up.
    pub(super) fn gives_up(&mut self, number: Number) {
        let phase = self.phase;
        let Some(registration) = self.waiting(Some(number)) else {
            return;
        };
        registration.state = State::GivenUp;
        self.cancelled += 1;
        if phase != Phase::Open {
            return;
        }
        if self.in_batch {
            self.comes_to("a drop during a batch");
        }
        if let Some(registration) = self.registrations.remove(&number) {
            self.leaves(registration.guest);
        }
    }

    /// Records that a guest's waker was woken.
    pub(super) fn wakes(&mut self, guest: u64) {
        if let Some(guest) = self.orphans.remove(&guest) {
            return self.gone.push(guest);
        }
        let Some(&number) = self.of_guest.get(&guest) else {
            return self.fail(format!("guest {guest} was woken without a registration"));
        };
        self.comes_out(number);
        let now = self.clock.now();
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        if replace(&mut registration.state, State::Woken) == State::Woken {
            return self.fail(format!("registration {number} was woken twice"));
        }
        let (deadline, set_at) = (registration.deadline, registration.set_at);
        if let (Some(since), Phase::Open) = (self.on_time_since, self.phase) {
            // A deadline that had just passed was registered for the next tick.
            let set_at = set_at + Duration::from_nanos((deadline <= set_at).into());
            let late = now - deadline.max(set_at).max(since).min(now);
            if late >= self.tick {
                self.fail(format!(
                    "registration {number} was woken {late:?} late by an exact alarm"
                ));
            }
        }
    }

    /// Returns the earliest instant at which an entry must fire.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.all_waiting().filter_map(|waiting| waiting.due).min()
    }

    pub(super) fn pending(&self) -> u64 {
        self.all_waiting().count() as u64
    }

    /// Checks the registrations at the end of a step.
    ///
    /// At that time, no wake is in progress. Every waker that had to be woken must have been woken. Each waiting
    /// registration must have exactly one waker, and no other waker may be left.
    pub(super) fn settle(&mut self) {
        for guest in take(&mut self.gone) {
            if Arc::strong_count(&guest) != 1 {
                let number = guest.number;
                self.fail(format!("a waker of guest {number} is kept after it left"));
            }
        }
        let is_open = self.phase == Phase::Open;
        self.registrations.retain(|number, registration| {
            let state = registration.state;
            let wakers = Arc::strong_count(&registration.guest) - 1;
            let right = match state {
                State::Waits => wakers == 1 && is_open,
                State::Out => false,
                State::Woken | State::GivenUp => wakers == 0,
            };
            if !right {
                let failure = format!("registration {number} is {state:?} with {wakers} wakers");
                self.failure.get_or_insert(failure);
            }
            if state != State::Waits {
                self.of_guest.remove(&registration.guest.number);
            }
            state == State::Waits
        });
    }

    /// Checks that the end of the runtime has woken and dropped the wakers that waited for it.
    pub(super) fn runtime_has_ended(&mut self) -> Result<(), String> {
        self.settle();
        if !self.orphans.is_empty() {
            self.fail("a waker was not woken at the end of the runtime");
        }
        self.verdict()
    }
}

//! The oracle: the expected state of each registration.
//!
//! The program reports its acts to the oracle. Each waker reports its wakes, and each task reports
//! its runs. The oracle knows nothing of wheels and shards. It computes ticks by itself, and
//! describes each error in words.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem::take,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::guest::Guest;

/// The number of seconds that a clock can reach: 292 years minus an hour and a second.
const REACH: u64 = ((1 << 63) - 3_600_000_000_000) / 1_000_000_000;

/// Converts instants to ticks, by long division.
#[derive(Clone, Copy)]
pub(super) struct Ticks {
    pub(super) start: Instant,
    pub(super) tick: Duration,
}

impl Ticks {
    /// Returns the instant at which a deadline expires. The result is the start of a tick: the
    /// first start that is not before the deadline.
    ///
    /// Returns `None` if the clock does not reach that instant.
    pub(super) fn due(self, deadline: Instant) -> Option<Instant> {
        let since = deadline.saturating_duration_since(self.start);
        let ticks = since.as_nanos().div_ceil(self.tick.as_nanos());
        (since.as_secs() < REACH).then(|| self.start + self.times(ticks))
    }

    /// Returns the start of the tick that contains `instant`.
    pub(super) fn reached(self, instant: Instant) -> Instant {
        let since = instant.saturating_duration_since(self.start);
        self.start + self.times(since.as_nanos() / self.tick.as_nanos())
    }

    fn times(self, ticks: u128) -> Duration {
        let nanos = ticks * self.tick.as_nanos();
        Duration::new(
            (nanos / 1_000_000_000) as u64,
            (nanos % 1_000_000_000) as u32,
        )
    }
}

/// One registration of a future. It begins with the poll that registers the future.
struct Registration {
    guest: Arc<Guest>,
    deadline: Instant,
    /// The instant at which the deadline expires, if the clock reaches it.
    due: Option<Instant>,
    /// The instant at which the deadline was set.
    set_at: Instant,
    state: State,
    woken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The registration waits until it fires.
    Waits,
    /// The driver or the end of the timer has removed the registration from the wheel. The
    /// registration must be woken before the step ends.
    Out,
    /// The future gave up its registration while the timer was closing. The registration may or may
    /// not have been woken.
    GivenUp,
}

/// A scheduled task.
pub(super) struct Task {
    pub(super) due: Instant,
    /// The delay between the runs of a periodic task.
    pub(super) delay: Option<Duration>,
    pub(super) waits: bool,
    pub(super) runs: u32,
    pub(super) cancelled: bool,
    pub(super) given_back: bool,
    /// The number of times that the task's value was dropped, or `None` if the task is bare.
    pub(super) drops: Option<u32>,
}

/// Whether a timer is open, is closing, or is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    Closing,
    Closed,
}

/// Identifies a registration. Several guests may register a waker in turn. The registration has the number
/// of the first of these guests.
pub(super) type Number = u64;

pub(super) struct Ledger {
    pub(super) ticks: Ticks,
    registrations: BTreeMap<Number, Registration>,
    /// For each guest, the registration that has the guest's waker.
    of_guest: HashMap<u64, Number>,
    /// The guests whose wakers must all be dropped when the step ends.
    gone: Vec<Arc<Guest>>,
    pub(super) tasks: Vec<Task>,
    /// The number of runs of all tasks.
    pub(super) runs: u64,
    pub(super) registered: u64,
    pub(super) resets: u64,
    pub(super) fired: u64,
    pub(super) cancelled: u64,
    pub(super) phase: Phase,
    /// Whether the timer has ended because its driver was dropped.
    pub(super) driver_is_dropped: bool,
    /// Whether the driver is being polled.
    pub(super) in_batch: bool,
    /// Whether the driver has yielded before it fired all due entries.
    pub(super) between_batches: bool,
    /// Whether the timer was closed in the middle of a batch. The timer counts the entries of the
    /// batch that had fired. But the oracle cannot know which entries had fired.
    pub(super) closed_amid_a_batch: bool,
    /// The instant since which the driver has been on time, or `None` if the driver is late.
    pub(super) on_time_since: Option<Instant>,
    failures: Vec<String>,
    outcomes: BTreeSet<&'static str>,
}

impl Ledger {
    pub(super) fn new(ticks: Ticks) -> Self {
        Self {
            ticks,
            registrations: BTreeMap::new(),
            of_guest: HashMap::new(),
            gone: Vec::new(),
            tasks: Vec::new(),
            runs: 0,
            registered: 0,
            resets: 0,
            fired: 0,
            cancelled: 0,
            phase: Phase::Open,
            driver_is_dropped: false,
            in_batch: false,
            between_batches: false,
            closed_amid_a_batch: false,
            on_time_since: None,
            failures: Vec::new(),
            outcomes: BTreeSet::new(),
        }
    }

    pub(super) fn fail(&mut self, what: impl Into<String>) {
        self.failures.push(what.into());
    }

    pub(super) fn comes_to(&mut self, outcome: &'static str) {
        self.outcomes.insert(outcome);
    }

    pub(super) fn take_outcomes(&mut self) -> BTreeSet<&'static str> {
        take(&mut self.outcomes)
    }

    /// Returns the first error, if there is one.
    pub(super) fn verdict(&mut self) -> Result<(), String> {
        match take(&mut self.failures).into_iter().next() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Records a pending poll of a future that was not registered before.
    pub(super) fn registers(
        &mut self,
        guest: Arc<Guest>,
        deadline: Instant,
        now: Instant,
    ) -> Number {
        let number = guest.number;
        self.of_guest.insert(number, number);
        self.registered += 1;
        // A deadline that has just passed is registered for the next tick.
        let due = (self.ticks).due(deadline.max(now + Duration::from_nanos(1)));
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
            woken: false,
        };
        self.registrations.insert(number, registration);
        number
    }

    /// Returns whether the registration still waits, according to the oracle.
    pub(super) fn waits(&self, number: Number) -> bool {
        let registration = self.registrations.get(&number);
        registration.is_some_and(|registration| registration.state == State::Waits)
    }

    pub(super) fn guest(&self, number: Number) -> Option<Arc<Guest>> {
        Some(self.registrations.get(&number)?.guest.clone())
    }

    /// Returns whether the deadline of the registration has expired.
    pub(super) fn is_due(&self, number: Number, now: Instant) -> bool {
        let registration = self.registrations.get(&number);
        let due = registration.and_then(|registration| registration.due);
        due.is_some_and(|due| due <= now)
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
        let old = std::mem::replace(&mut registration.guest, guest);
        if old.number != new {
            self.of_guest.remove(&old.number);
            self.of_guest.insert(new, number);
            self.gone.push(old);
        }
    }

    pub(super) fn resets(&mut self, number: Number, deadline: Instant, now: Instant) {
        self.resets += 1;
        if self.in_batch {
            self.comes_to("a reset during a batch");
        }
        if let Some(registration) = self.registrations.get_mut(&number) {
            registration.deadline = deadline;
            registration.due = self.ticks.due(deadline);
            registration.set_at = now;
        }
    }

    /// Records that the driver or the end of the timer has removed a registration from the wheel.
    pub(super) fn comes_out(&mut self, number: Number, now: Instant) {
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        if registration.state != State::Waits {
            return;
        }
        registration.state = State::Out;
        if self.phase == Phase::Open {
            self.fired += 1;
            if now < registration.deadline {
                let early = registration.deadline - now;
                self.fail(format!("registration {number} fired {early:?} early"));
            }
        } else {
            self.cancelled += 1;
        }
    }

    /// Records that a future gives its registration up.
    pub(super) fn gives_up(&mut self, number: Number) {
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        if registration.state != State::Waits {
            return;
        }
        self.cancelled += 1;
        if self.phase == Phase::Open {
            if self.in_batch {
                self.outcomes.insert("a drop during a batch");
            }
            let guest = registration.guest.clone();
            self.registrations.remove(&number);
            self.of_guest.remove(&guest.number);
            self.gone.push(guest);
        } else {
            registration.state = State::GivenUp;
        }
    }

    /// Records that a guest's waker was woken.
    pub(super) fn wakes(&mut self, guest: u64, now: Instant) {
        let Some(&number) = self.of_guest.get(&guest) else {
            return self.fail(format!("guest {guest} was woken without a registration"));
        };
        self.comes_out(number, now);
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        if std::mem::replace(&mut registration.woken, true) {
            self.fail(format!("registration {number} was woken twice"));
            return;
        }
        let (deadline, set_at) = (registration.deadline, registration.set_at);
        if let (Some(since), Phase::Open) = (self.on_time_since, self.phase) {
            // A deadline that had just passed was registered for the next tick.
            let set_at = set_at + Duration::from_nanos((deadline <= set_at).into());
            let late = now - deadline.max(set_at).max(since).min(now);
            if late >= self.ticks.tick {
                self.fail(format!(
                    "registration {number} was woken {late:?} late by an exact alarm"
                ));
            }
        }
    }

    /// Records that a task is scheduled.
    pub(super) fn schedules(
        &mut self,
        deadline: Instant,
        now: Instant,
        delay: Option<Duration>,
        bare: bool,
    ) {
        self.registered += 1;
        // A task that is due fires at once.
        let due = match self.ticks.due(deadline) {
            Some(_) if deadline <= now => self.ticks.reached(now),
            Some(due) => due,
            // The clock never reaches this deadline.
            None => deadline,
        };
        self.tasks.push(Task {
            due,
            delay,
            waits: true,
            runs: 0,
            cancelled: false,
            given_back: false,
            drops: (!bare).then_some(0),
        });
    }

    /// Records that a task runs.
    pub(super) fn runs(&mut self, number: usize, now: Instant) {
        let (phase, ticks) = (self.phase, self.ticks);
        let task = &mut self.tasks[number];
        task.runs += 1;
        self.runs += 1;
        if task.runs > 1 {
            self.outcomes.insert("a task that ran again");
        }
        let is_early = now < task.due;
        let was_cancelled = task.cancelled && task.delay.is_none();
        if take(&mut task.waits) {
            self.fired += 1;
        }
        if let (Some(delay), Phase::Open, false) = (task.delay, phase, task.cancelled) {
            task.due = ticks.due(now + delay).unwrap_or(now + delay);
            task.waits = true;
            self.registered += 1;
        }
        if is_early {
            self.fail(format!("task {number} ran early"));
        }
        if was_cancelled {
            self.fail(format!("task {number} ran after it was canceled"));
        }
    }

    /// Returns the earliest instant at which an entry must fire.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let waiting = self.registrations.values();
        let futures = waiting
            .filter(|registration| registration.state == State::Waits)
            .filter_map(|registration| registration.due);
        let tasks = self.tasks.iter().filter(|task| task.waits);
        let tasks = tasks.filter_map(|task| self.ticks.due(task.due));
        futures.chain(tasks).min()
    }

    pub(super) fn pending(&self) -> u64 {
        let waiting = self.registrations.values();
        let futures = waiting.filter(|registration| registration.state == State::Waits);
        let tasks = self.tasks.iter().filter(|task| task.waits);
        (futures.count() + tasks.count()) as u64
    }

    /// Checks the registrations at the end of a step.
    ///
    /// At that time, no wake is in progress. Every waker that had to be woken must have been woken.
    /// Each waiting registration must have exactly one waker, and no other waker may be left.
    pub(super) fn settle(&mut self) {
        for guest in take(&mut self.gone) {
            if Arc::strong_count(&guest) != 1 {
                let number = guest.number;
                self.fail(format!("a waker of guest {number} is kept after it left"));
            }
        }
        let mut failures = Vec::new();
        let phase = self.phase;
        let of_guest = &mut self.of_guest;
        self.registrations.retain(|number, registration| {
            let wakers = Arc::strong_count(&registration.guest) - 1;
            let right = match registration.state {
                State::Waits => !registration.woken && wakers == 1 && phase == Phase::Open,
                State::Out => registration.woken && wakers == 0,
                State::GivenUp => wakers == 0,
            };
            if !right {
                failures.push(format!(
                    "registration {number}, {:?}, was {}woken and has {wakers} wakers",
                    registration.state,
                    if registration.woken { "" } else { "not " },
                ));
            }
            if registration.state != State::Waits {
                of_guest.remove(&registration.guest.number);
            }
            registration.state == State::Waits
        });
        self.failures.append(&mut failures);
    }
}

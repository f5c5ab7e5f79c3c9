//! The oracle: what must have become of each registration.
//!
//! It is told what the program does and hears what wakers and tasks do, and knows nothing of wheels
//! and shards. It counts ticks by itself, and says what is wrong in words.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem::take,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::guest::Guest;

/// Beyond that a clock does not reach: 292 years, less an hour and a second.
const REACH: u64 = ((1 << 63) - 3_600_000_000_000) / 1_000_000_000;

/// Instants and ticks, by long division.
#[derive(Clone, Copy)]
pub(super) struct Ticks {
    pub(super) start: Instant,
    pub(super) tick: Duration,
}

impl Ticks {
    /// The instant at which a deadline is due: the first beginning of a tick that is not before it.
    /// `None` if the clock does not reach it.
    pub(super) fn due(self, deadline: Instant) -> Option<Instant> {
        let since = deadline.saturating_duration_since(self.start);
        let ticks = since.as_nanos().div_ceil(self.tick.as_nanos());
        (since.as_secs() < REACH).then(|| self.start + self.times(ticks))
    }

    /// The beginning of the tick that `instant` lies in.
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

/// One registration of a future, from the poll that made it.
struct Registration {
    guest: Arc<Guest>,
    deadline: Instant,
    /// When that is due, if the clock reaches it.
    due: Option<Instant>,
    /// When the deadline was set.
    set_at: Instant,
    state: State,
    woken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be woken when it is due.
    Waits,
    /// Taken out by the driver or by the timer's end: to be woken before the step is over.
    Out,
    /// Given up while the timer was closing, and woken or not.
    GivenUp,
}

/// A scheduled task.
pub(super) struct Task {
    pub(super) due: Instant,
    /// If it runs again and again.
    pub(super) delay: Option<Duration>,
    pub(super) waits: bool,
    pub(super) runs: u32,
    pub(super) cancelled: bool,
    pub(super) given_back: bool,
    /// How often what it holds was dropped, unless it is bare.
    pub(super) drops: Option<u32>,
}

/// What a closed timer is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    Closing,
    Closed,
}

/// A registration is named by the number of the guest that made it.
pub(super) type Number = u64;

pub(super) struct Ledger {
    pub(super) ticks: Ticks,
    registrations: BTreeMap<Number, Registration>,
    /// Whose waker is registered there.
    of_guest: HashMap<u64, Number>,
    /// Whose wakers are all dropped when the step is over.
    gone: Vec<Arc<Guest>>,
    pub(super) tasks: Vec<Task>,
    pub(super) registered: u64,
    pub(super) resets: u64,
    pub(super) fired: u64,
    pub(super) cancelled: u64,
    pub(super) phase: Phase,
    /// While the driver is polled.
    pub(super) in_batch: bool,
    /// Whether the driver has yielded amid what is due.
    pub(super) between_batches: bool,
    /// Whether the timer was closed amid a batch: what had fired of it is counted as such, but
    /// cannot be told from what had not.
    pub(super) closed_amid_a_batch: bool,
    /// Since when the driver has been on time, if it is now.
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
            registered: 0,
            resets: 0,
            fired: 0,
            cancelled: 0,
            phase: Phase::Open,
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

    /// The first thing that went wrong, if any.
    pub(super) fn verdict(&mut self) -> Result<(), String> {
        match take(&mut self.failures).into_iter().next() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// A poll was pending that had nothing registered before.
    pub(super) fn registers(
        &mut self,
        guest: Arc<Guest>,
        deadline: Instant,
        now: Instant,
    ) -> Number {
        let number = guest.number;
        self.of_guest.insert(number, number);
        self.registered += 1;
        let due = self.ticks.due(deadline);
        if self.in_batch {
            self.comes_to("a registration amid a batch");
            if due.is_some_and(|due| due <= now) {
                self.comes_to("a registration amid a batch that is due with it");
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

    /// Whether it is still to be woken, as far as is known.
    pub(super) fn waits(&self, number: Number) -> bool {
        let registration = self.registrations.get(&number);
        registration.is_some_and(|registration| registration.state == State::Waits)
    }

    pub(super) fn guest(&self, number: Number) -> Option<Arc<Guest>> {
        Some(self.registrations.get(&number)?.guest.clone())
    }

    /// Whether its deadline is due.
    pub(super) fn is_due(&self, number: Number, now: Instant) -> bool {
        let registration = self.registrations.get(&number);
        let due = registration.and_then(|registration| registration.due);
        due.is_some_and(|due| due <= now)
    }

    /// Another guest's waker may be registered from now on.
    pub(super) fn may_replace(&mut self, number: Number, guest: &Guest) {
        self.of_guest.insert(guest.number, number);
    }

    /// No waker of a guest is registered, or not any more.
    pub(super) fn leaves(&mut self, guest: Arc<Guest>) {
        self.of_guest.remove(&guest.number);
        self.gone.push(guest);
    }

    /// Another guest's waker is registered from now on.
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
            self.comes_to("a reset amid a batch");
        }
        if let Some(registration) = self.registrations.get_mut(&number) {
            registration.deadline = deadline;
            registration.due = self.ticks.due(deadline);
            registration.set_at = now;
        }
    }

    /// The driver has taken it out, or the timer's end has.
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

    /// Its future has given it up.
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
                self.outcomes.insert("a drop amid a batch");
            }
            let guest = registration.guest.clone();
            self.registrations.remove(&number);
            self.of_guest.remove(&guest.number);
            self.gone.push(guest);
        } else {
            registration.state = State::GivenUp;
        }
    }

    /// A guest's waker was woken.
    pub(super) fn wakes(&mut self, guest: u64, now: Instant) {
        let Some(&number) = self.of_guest.get(&guest) else {
            return self.fail(format!("guest {guest} was woken, which is not registered"));
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
            let late = now - deadline.max(set_at).max(since).min(now);
            if late >= self.ticks.tick {
                self.fail(format!(
                    "registration {number} was woken {late:?} late by an exact alarm"
                ));
            }
        }
    }

    /// A task is scheduled, and its number.
    pub(super) fn schedules(
        &mut self,
        deadline: Instant,
        now: Instant,
        delay: Option<Duration>,
        bare: bool,
    ) {
        self.registered += 1;
        // One that is due fires at once.
        let due = match self.ticks.due(deadline) {
            Some(_) if deadline <= now => self.ticks.reached(now),
            Some(due) => due,
            // As good as never.
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

    /// A task runs.
    pub(super) fn runs(&mut self, number: usize, now: Instant) {
        let (phase, ticks) = (self.phase, self.ticks);
        let task = &mut self.tasks[number];
        task.runs += 1;
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
            self.fail(format!("task {number} ran, and was cancelled"));
        }
    }

    /// When something is due first.
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

    /// When a step is over, nobody is being woken: looks whether everybody was who had to be, and
    /// whether each waker is where it belongs.
    pub(super) fn settle(&mut self) {
        for guest in take(&mut self.gone) {
            if Arc::strong_count(&guest) != 1 {
                let number = guest.number;
                self.fail(format!("a waker of guest {number} is kept, which is gone"));
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

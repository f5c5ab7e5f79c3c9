//! The state that a program acts on: futures in their places, tasks, and the timer itself.
//!
//! The function `act` performs every act. The function may be called on any thread and within any
//! waker.

use std::{
    collections::BTreeMap,
    future::{Future, Pending, pending},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    runtime::{Handle, worker_index},
    time::{Instant, MissedTickBehavior},
};

use super::{
    guest::{Guest, Hostile},
    ledger::{Ledger, Number, Phase},
    program::{Act, Guest as Manners, Moment, Place, What},
    threads::{AFTER_THE_END, Helper, PATIENCE, Progress},
};
use crate::{
    driver::clock::{manual::Manual, saturating_add},
    futures::{Interval, Sleep, Timeout},
    ground::unwind,
    schedule::ScheduledTask,
    timer::{Metrics, Timer},
};

/// The maximum depth to which the acts of wakers are nested.
const DEPTH: usize = 3;

/// The maximum number of sleeps in a crowd.
const CROWD: usize = 1_500;

/// The number of acts and polls after which the wakers of a program stop acting. A waker may act on
/// a crowd whose wakers also act, so without a limit one program in 20,000 polls 500,000 times.
pub(super) const ACTS: u64 = 20_000;

/// The numbers of bare tasks that ran and are not yet recorded.
type Runs = Mutex<Vec<usize>>;

/// The lists of all programs. They keep the lists reachable, so that `.ci/sanitize` does not report
/// leaks.
static RUNS: Mutex<Vec<&Runs>> = Mutex::new(Vec::new());

/// The maximum time that can pass in a program. A clock can reach 292 years.
const YEARS: Duration = Duration::from_secs(280 * 365 * 86_400);

pub(super) struct World {
    this: Weak<Self>,
    timer: Mutex<Option<Timer>>,
    max_pending: Option<usize>,
    pub(super) clock: Manual,
    pub(super) runtime: Handle,
    /// The futures by place: first the places of the program, then the places of the crowd.
    places: Mutex<BTreeMap<Place, Occupant>>,
    /// Futures that could not be dropped yet, because it was unclear whether they were registered.
    limbo: Mutex<Vec<Occupant>>,
    tasks: Mutex<Vec<Arc<Task>>>,
    bare_runs: &'static Runs,
    ledger: Mutex<Ledger>,
    last_moment: Mutex<Instant>,
    guests: AtomicU64,
    crowd: AtomicUsize,
    depth: AtomicUsize,
    pub(super) progress: Progress,
    /// Whether something has happened that may wake the driver or set the alarm.
    pub(super) noise: AtomicBool,
    /// The threads that act for the program and are not workers, by shard.
    others: [Helper; 4],
    /// The threads that act while a waker blocks, by number.
    helpers: [Helper; 4],
}

/// A future in its place.
struct Occupant {
    kept: Kept,
    deadline: Instant,
    /// The number of the future's registration, until the future is ready.
    number: Option<Number>,
    /// Whether the future has been ready. A future that has been ready must stay ready.
    is_ready: bool,
}

enum Kept {
    Sleep(Sleep),
    Timeout(Pin<Box<Timeout<Pending<()>>>>),
    Interval(Interval),
}

enum Task {
    Once(ScheduledTask<()>),
    Again(ScheduledTask<()>),
}

/// The value that a scheduled task holds.
struct Cargo {
    world: Weak<World>,
    number: usize,
}

/// A future that does not need `Drop`. The compiler assumes that every `async` block needs `Drop`.
struct Bare {
    runs: &'static Runs,
    number: usize,
}

impl Future for Bare {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.runs.lock().unwrap().push(self.number);
        Poll::Ready(())
    }
}

impl Cargo {
    fn run(&self) {
        if let Some(world) = self.world.upgrade() {
            world.comes_to("a task that ran");
            let now = world.now();
            world.ledger().runs(self.number, now);
        }
    }
}

impl Drop for Cargo {
    fn drop(&mut self) {
        if let Some(world) = self.world.upgrade() {
            // A refused task is not in the ledger.
            if let Some(task) = world.ledger().tasks.get_mut(self.number) {
                task.drops = task.drops.map(|drops| drops + 1);
            }
        }
    }
}

impl Kept {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        match self {
            Self::Sleep(sleep) => Pin::new(sleep).poll(cx).map(|()| None),
            Self::Timeout(timeout) => timeout.as_mut().poll(cx).map(|elapsed| {
                elapsed.unwrap_err();
                None
            }),
            Self::Interval(interval) => interval.poll_tick(cx).map(Some),
        }
    }
}

impl World {
    pub(super) fn new(
        timer: Timer,
        clock: Manual,
        runtime: Handle,
        max_pending: Option<usize>,
        ledger: Ledger,
        progress: Progress,
    ) -> Arc<Self> {
        let bare_runs: &'static Runs = Box::leak(Box::default());
        RUNS.lock().unwrap().push(bare_runs);
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            timer: Mutex::new(Some(timer)),
            max_pending,
            last_moment: Mutex::new(clock.now()),
            clock,
            runtime,
            places: Mutex::default(),
            limbo: Mutex::default(),
            tasks: Mutex::default(),
            bare_runs,
            ledger: Mutex::new(ledger),
            guests: AtomicU64::new(0),
            crowd: AtomicUsize::new(super::program::PLACES),
            depth: AtomicUsize::new(0),
            progress,
            noise: AtomicBool::new(false),
            others: std::array::from_fn(Helper::of),
            helpers: std::array::from_fn(Helper::of),
        })
    }

    /// Locks the ledger. While the caller holds this lock, it must not call any function of the
    /// crate.
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    pub(super) fn fail(&self, what: impl Into<String>) {
        self.ledger().fail(what);
    }

    pub(super) fn comes_to(&self, outcome: &'static str) {
        self.ledger().comes_to(outcome);
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(super) fn timer(&self) -> Option<Timer> {
        self.timer.lock().unwrap().clone()
    }

    pub(super) fn metrics(&self) -> Option<Metrics> {
        Some(self.timer()?.metrics())
    }

    fn phase(&self) -> Phase {
        self.ledger().phase
    }

    fn is_noisy(&self) {
        self.noise.store(true, SeqCst);
    }

    /// Lets time pass on the timer's clock. Also advances tokio's clock, which other code of the
    /// crate reads.
    pub(super) fn pass(&self, time: Duration) {
        let since = self.now() - self.ledger().ticks.start;
        if since.saturating_add(time) > YEARS {
            return;
        }
        if time > Duration::from_secs(365 * 86_400) && self.ledger().pending() > 0 {
            self.comes_to("a leap of years");
        }
        self.clock.advance(time);
        let _its_time = self.runtime.enter();
        // The first poll sets the clock. The other polls only yield.
        let advance = pin!(tokio::time::advance(time));
        let _ = advance.poll(&mut Context::from_waker(Waker::noop()));
        if Instant::now() != self.now() {
            self.fail("the clocks differ");
        }
    }

    fn moment(&self, moment: Moment) -> Instant {
        let ticks = self.ledger().ticks;
        let now = self.now();
        let at = match moment {
            Moment::In(span) => saturating_add(now, span.duration(ticks.tick)),
            Moment::Ago(span) => {
                let ago = now.checked_sub(span.duration(ticks.tick));
                ago.unwrap_or(ticks.start)
            }
            Moment::Start => ticks.start,
            Moment::Edge(level, slots, off) => {
                let slot = ticks.tick.as_nanos() << (6 * level);
                let since = (now - ticks.start).as_nanos();
                let edge = (since / slot + 1 + u128::from(slots)) * slot;
                let edge = edge.saturating_add_signed(off.into());
                let seconds = (edge / 1_000_000_000).try_into().unwrap_or(u64::MAX);
                let edge = Duration::new(seconds, (edge % 1_000_000_000) as u32);
                saturating_add(ticks.start, edge)
            }
            Moment::Same => *self.last_moment.lock().unwrap(),
        };
        *self.last_moment.lock().unwrap() = at;
        at
    }

    /// Records that a guest's waker was woken.
    pub(super) fn woken(&self, guest: u64) {
        let now = self.now();
        self.ledger().wakes(guest, now);
    }

    /// Performs the acts of a waker.
    pub(super) fn within(&self, acts: Vec<Act>) {
        self.is_noisy();
        let is_deep = self.depth.fetch_add(1, SeqCst) >= DEPTH;
        if !is_deep && self.progress.steps() < ACTS {
            acts.into_iter().for_each(|act| self.act(act));
        }
        self.depth.fetch_sub(1, SeqCst);
    }

    /// Lets another thread perform the acts, and waits until that thread has finished.
    pub(super) fn within_elsewhere(&self, thread: usize, acts: Vec<Act>) {
        if self.depth.load(SeqCst) > 0 {
            return self.within(acts);
        }
        self.comes_to("a waker that blocks");
        self.run_on(&self.helpers[thread], move |world| world.within(acts));
    }

    /// Performs the acts on a thread that is not a worker. The thread belongs to the shard with the
    /// number `thread`.
    pub(super) fn elsewhere(&self, thread: usize, acts: impl FnOnce(&Self) + Send + 'static) {
        self.run_on(&self.others[thread], acts);
    }

    fn run_on(&self, helper: &Helper, acts: impl FnOnce(&Self) + Send + 'static) {
        let Some(world) = self.this.upgrade() else {
            return;
        };
        let done = helper.run(PATIENCE, &self.progress, move || {
            let _its_time = world.runtime.enter();
            acts(&world);
        });
        if done.is_err() {
            self.fail("another thread waits forever");
        }
    }

    pub(super) fn act(&self, act: Act) {
        self.progress.advance();
        match act {
            Act::Put(place, what, moment) => self.put(place, what, moment),
            Act::Poll(place, manners) => self.poll(place, manners),
            Act::Reset(place, moment) => {
                let at = self.moment(moment);
                self.reset(place, at);
            }
            Act::Drop(place) => self.take_away(place),
            Act::Crowd(number, moment, every, manners) => {
                let at = self.moment(moment);
                for n in 0..number {
                    let manners = (n % every == 0).then(|| manners.clone());
                    self.join_crowd(at, manners.unwrap_or_default());
                }
            }
            Act::PollCrowd(every, manners) => {
                for place in self.crowd(every) {
                    self.poll(place, Some(manners.clone()));
                }
            }
            Act::ResetCrowd(every, moment) => {
                let at = self.moment(moment);
                for place in self.crowd(every) {
                    self.reset(place, at);
                }
            }
            Act::DropCrowd(every) => {
                for place in self.crowd(every) {
                    self.take_away(place);
                }
            }
            Act::Schedule(moment, bare) => self.schedule(moment, None, bare),
            Act::Repeat(moment, delay) => self.schedule(moment, Some(delay), false),
            Act::Cancel(number) => self.cancel(number),
            Act::Metrics => drop(self.metrics()),
            Act::Shutdown => self.shutdown(),
            Act::Stall(span) => {
                let ticks = self.ledger().ticks;
                self.ledger().on_time_since = None;
                self.pass(span.duration(ticks.tick));
            }
        }
    }

    fn crowd(&self, every: usize) -> Vec<Place> {
        let places = self.places.lock().unwrap();
        let crowd = places.range(super::program::PLACES..);
        crowd.map(|(place, _)| *place).step_by(every).collect()
    }

    /// Puts an occupant back into its place, unless a waker has filled the place in the meantime.
    fn put_back(&self, place: Place, occupant: Occupant) {
        let occupant = {
            let mut places = self.places.lock().unwrap();
            match places.entry(place) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(occupant);
                    return;
                }
                std::collections::btree_map::Entry::Occupied(_) => occupant,
            }
        };
        self.drop_occupant(occupant);
    }

    fn take(&self, place: Place) -> Option<Occupant> {
        self.places.lock().unwrap().remove(&place)
    }

    fn put(&self, place: Place, what: What, moment: Moment) {
        let at = self.moment(moment);
        let Some(timer) = self.timer() else {
            return;
        };
        let kept = match what {
            What::Sleep => Kept::Sleep(timer.sleep_until(at)),
            What::Timeout => Kept::Timeout(Box::pin(timer.timeout_at(at, pending()))),
            What::Interval(period) => {
                let mut interval = timer.interval_at(at, period);
                interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
                Kept::Interval(interval)
            }
        };
        self.take_away(place);
        let occupant = Occupant {
            kept,
            deadline: at,
            number: None,
            is_ready: false,
        };
        self.put_back(place, occupant);
    }

    fn join_crowd(&self, at: Instant, manners: Manners) {
        let Some(timer) = self.timer() else {
            return;
        };
        let place = self.crowd.fetch_add(1, SeqCst);
        if place > CROWD {
            return;
        }
        let occupant = Occupant {
            kept: Kept::Sleep(timer.sleep_until(at)),
            deadline: at,
            number: None,
            is_ready: false,
        };
        self.put_back(place, occupant);
        self.poll(place, Some(manners));
    }

    fn guest(&self, manners: Manners) -> Arc<Guest> {
        let number = self.guests.fetch_add(1, SeqCst);
        Guest::new(self.this.clone(), number, manners)
    }

    fn poll(&self, place: Place, manners: Option<Manners>) {
        self.progress.advance();
        let Some(mut occupant) = self.take(place) else {
            return;
        };
        let waits_for_the_end = self.ledger().driver_is_dropped && worker_index().is_some();
        if waits_for_the_end && self.now() < occupant.deadline {
            // On a worker, the future would wait for the end of the runtime, which goes on here. Tests of this case:
            // `tests/promises/p10_runtime_end.rs`.
            return self.put_back(place, occupant);
        }
        self.is_noisy();
        let waits = (occupant.number).filter(|number| self.ledger().waits(*number));
        let registered = waits.and_then(|number| self.ledger().guest(number));
        let (guest, is_new) = match (manners, registered) {
            (None, Some(guest)) => {
                self.comes_to("the same waker again");
                (guest, false)
            }
            (manners, _) => (self.guest(manners.unwrap_or_default()), true),
        };
        if let (Some(number), true) = (waits, is_new) {
            self.comes_to("another waker");
            // During the poll, the old and the new waker may act. So either of these wakers may be
            // woken.
            self.ledger().may_replace(number, &guest);
        }
        let could_be_pending = match occupant.number {
            Some(_) => waits.is_some(),
            None => self.phase() != Phase::Closed && !occupant.is_ready,
        };
        let polled = {
            let waker = guest.waker();
            catch_unwind(AssertUnwindSafe(|| {
                occupant.kept.poll(&mut Context::from_waker(&waker))
            }))
        };
        if matches!(polled, Ok(Poll::Pending)) && !could_be_pending {
            self.fail("a poll is pending after the future was ready, or after the end");
        }
        self.polled(&mut occupant, guest, is_new, polled);
        self.put_back(place, occupant);
    }

    /// Records the outcome of a poll.
    fn polled(
        &self,
        occupant: &mut Occupant,
        guest: Arc<Guest>,
        is_new: bool,
        polled: std::thread::Result<Poll<Option<Instant>>>,
    ) {
        let now = self.now();
        let mut ledger = self.ledger();
        let phase = ledger.phase;
        let waits = occupant.number.filter(|number| ledger.waits(*number));
        match polled {
            Ok(Poll::Pending) => match occupant.number {
                Some(number) => ledger.replaces(number, guest),
                None => occupant.number = Some(ledger.registers(guest, occupant.deadline, now)),
            },
            Ok(Poll::Ready(tick)) => {
                if now < occupant.deadline {
                    ledger.fail(format!("ready {:?} early", occupant.deadline - now));
                }
                if let Some(number) = occupant.number.take() {
                    ledger.comes_out(number, now);
                    ledger.comes_to("a future that was woken and is ready");
                } else {
                    ledger.comes_to("a future that is ready at once");
                }
                if is_new {
                    ledger.leaves(guest);
                }
                match tick {
                    Some(due) => {
                        if due != occupant.deadline {
                            ledger.fail("an interval ticks for a wrong instant");
                        }
                        // In tokio, an interval's tick is missed if it is late by more than 5 ms.
                        let missed = now > due + Duration::from_millis(5);
                        let from = if missed { now } else { due };
                        occupant.deadline = from + occupant.kept.period();
                        ledger.comes_to("an interval that ticked");
                    }
                    None => occupant.is_ready = true,
                }
            }
            Err(payload) if payload.is::<Hostile>() => {
                match waits {
                    // The replaced waker panicked while it was dropped.
                    Some(number) if Arc::strong_count(&guest) > 1 && is_new => {
                        ledger.replaces(number, guest);
                    }
                    _ if is_new => ledger.leaves(guest),
                    _ => {}
                }
            }
            Err(payload) => {
                let message = unwind::message(&*payload).unwrap_or_default();
                if phase == Phase::Open || now >= occupant.deadline {
                    ledger.fail(format!("a poll panicked: {message}"));
                }
                if !message.contains(AFTER_THE_END) {
                    ledger.fail(format!("a poll after the end panicked: {message}"));
                }
                ledger.comes_to("a poll that panics after the end");
                if is_new {
                    ledger.leaves(guest);
                }
            }
        }
    }

    /// Returns `true` if the program cannot know whether the future's entry is still in the wheel.
    ///
    /// The driver or the end of the timer may already have removed the entry, but not yet woken its
    /// waker.
    fn is_unclear(&self, occupant: &Occupant) -> bool {
        let Some(number) = occupant.number else {
            return false;
        };
        let now = self.now();
        let is_sleep = matches!(occupant.kept, Kept::Sleep(_));
        let ledger = self.ledger();
        !is_sleep && ledger.in_batch && ledger.waits(number) && ledger.is_due(number, now)
    }

    /// If the driver has removed a sleep's entry and has not woken its waker yet, records the
    /// removal.
    fn look_at(&self, occupant: &Occupant) {
        let (Some(number), Kept::Sleep(sleep)) = (occupant.number, &occupant.kept) else {
            return;
        };
        let is_elapsed = sleep.is_elapsed();
        let now = self.now();
        let mut ledger = self.ledger();
        if ledger.phase != Phase::Open {
            return;
        }
        let waits = ledger.waits(number);
        if is_elapsed && waits {
            ledger.comes_to("a sleep that has fired and is not woken yet");
            ledger.comes_out(number, now);
        }
        if !is_elapsed && !waits {
            ledger.fail("a sleep was woken and is not elapsed");
        }
    }

    fn reset(&self, place: Place, at: Instant) {
        let Some(mut occupant) = self.take(place) else {
            return;
        };
        self.look_at(&occupant);
        let waits = (occupant.number).filter(|number| self.ledger().waits(*number));
        let closing = self.phase() != Phase::Open && waits.is_some();
        if !closing && !self.is_unclear(&occupant) {
            if let Kept::Timeout(_) = occupant.kept {
                return self.put_back(place, occupant);
            }
            let now = self.now();
            let mut must_fire = None;
            if let Some(number) = waits {
                let ticks = self.ledger().ticks;
                let later = match (ticks.due(occupant.deadline), ticks.due(at)) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some(old), Some(new)) => old <= new,
                };
                if later {
                    self.comes_to("a reset to a later deadline");
                } else {
                    self.comes_to("a reset to an earlier deadline");
                    self.is_noisy();
                    must_fire = (at <= now).then_some(number);
                }
                self.ledger().resets(number, at, now);
            } else {
                occupant.number = None;
            }
            let reset = AssertUnwindSafe(|| match &mut occupant.kept {
                Kept::Sleep(sleep) => Pin::new(sleep).reset(at),
                Kept::Interval(interval) => interval.reset_at(at),
                Kept::Timeout(_) => {}
            });
            if catch_unwind(reset).is_err() {
                self.fail("a reset panicked");
            }
            if must_fire.is_some_and(|number| self.ledger().waits(number)) {
                self.fail("a reset to a past deadline does not fire");
            }
            if must_fire.is_some() {
                self.comes_to("a reset that fires");
            }
            occupant.deadline = at;
            occupant.is_ready = false;
        }
        self.put_back(place, occupant);
    }

    fn take_away(&self, place: Place) {
        if let Some(occupant) = self.take(place) {
            self.drop_occupant(occupant);
        }
    }

    fn drop_occupant(&self, occupant: Occupant) {
        if self.is_unclear(&occupant) {
            return self.limbo.lock().unwrap().push(occupant);
        }
        self.look_at(&occupant);
        if let Some(number) = occupant.number {
            self.ledger().gives_up(number);
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(occupant))) {
            if !payload.is::<Hostile>() {
                self.fail("a drop panicked");
            }
        }
    }

    /// Drops the futures that could not be dropped before.
    pub(super) fn clear_limbo(&self) {
        let limbo = std::mem::take(&mut *self.limbo.lock().unwrap());
        limbo
            .into_iter()
            .for_each(|occupant| self.drop_occupant(occupant));
    }

    fn schedule(&self, moment: Moment, delay: Option<Duration>, bare: bool) {
        let at = self.moment(moment);
        let Some(timer) = self.timer() else {
            return;
        };
        self.is_noisy();
        let is_full = (self.max_pending).is_some_and(|max| timer.metrics().pending() >= max as u64);
        let now = self.now();
        let number = self.ledger().tasks.len();
        let world = self.this.clone();
        let cargo = Cargo { world, number };
        let refusal = |full, shut| {
            let phase = self.phase();
            if full && !is_full || shut && phase == Phase::Open || !(full || shut) {
                self.fail("a task was refused without a reason");
            }
            self.comes_to(if full {
                "a timer that is full"
            } else {
                "a task after the end"
            });
        };
        let at = if delay.is_some() { at.max(now) } else { at };
        let scheduled = match delay {
            None if bare => {
                // A bare task cannot keep a reference to the world.
                let runs = self.bare_runs;
                match timer.schedule_at(at, Bare { runs, number }) {
                    Ok(task) => Task::Once(task),
                    Err(error) => return refusal(error.is_full(), error.is_shutdown()),
                }
            }
            None => match timer.schedule_at(at, async move { cargo.run() }) {
                Ok(task) => Task::Once(task),
                Err(error) => return refusal(error.is_full(), error.is_shutdown()),
            },
            Some(delay) => {
                let make = move || {
                    cargo.run();
                    async {}
                };
                match timer.schedule_with_fixed_delay(at - now, delay, make) {
                    Ok(task) => Task::Again(task),
                    Err(error) => return refusal(error.is_full(), error.is_shutdown()),
                }
            }
        };
        let mut ledger = self.ledger();
        if is_full {
            ledger.fail("a task was accepted beyond the limit");
        }
        if ledger.phase != Phase::Open {
            ledger.fail("a task was accepted after the end");
        }
        ledger.schedules(at, now, delay, bare);
        self.tasks.lock().unwrap().push(Arc::new(scheduled));
    }

    fn cancel(&self, number: usize) {
        let (number, task) = {
            let tasks = self.tasks.lock().unwrap();
            if tasks.is_empty() {
                return;
            }
            let number = number % tasks.len();
            (number, tasks[number].clone())
        };
        let Some(before) = self.metrics() else {
            return;
        };
        self.book_runs();
        let waited = self.ledger().tasks[number].waits;
        let did = task.cancel();
        let Some(after) = self.metrics() else {
            return;
        };
        let mut ledger = self.ledger();
        let open = ledger.phase == Phase::Open;
        if did {
            ledger.tasks[number].cancelled = true;
            if waited {
                ledger.tasks[number].waits = false;
                if open && before.cancelled() == after.cancelled() {
                    ledger.fired += 1;
                    ledger.comes_to("a task canceled that was about to start");
                } else {
                    ledger.cancelled += 1;
                    ledger.comes_to("a task canceled");
                }
            }
        } else if waited && open && !task.has_started() {
            ledger.fail(format!("task {number} waits and cannot be canceled"));
        }
    }

    /// Records the runs of bare tasks, because these tasks cannot record their runs themselves.
    fn book_runs(&self) {
        let now = self.now();
        let runs = std::mem::take(&mut *self.bare_runs.lock().unwrap());
        for number in runs {
            self.ledger().runs(number, now);
        }
    }

    fn shutdown(&self) {
        let Some(timer) = self.timer() else {
            return;
        };
        self.is_noisy();
        let first = self.begins_to_close();
        let left = timer.shutdown();
        if !first {
            if !left.is_empty() {
                self.fail("a timer that has ended returns tasks");
            }
            return;
        }
        self.comes_to("a shutdown");
        if !left.is_sorted_by_key(|task| task.deadline()) {
            self.fail("the returned tasks are not in order");
        }
        let returned = left.len();
        drop(left);
        let tasks = self.tasks.lock().unwrap().clone();
        let finished: Vec<_> = tasks.iter().map(|task| task.is_finished()).collect();
        let mut ledger = self.ledger();
        let mut ended = 0;
        for (number, finished) in finished.into_iter().enumerate() {
            let booked = &mut ledger.tasks[number];
            if !finished || !booked.waits || booked.cancelled {
                continue;
            }
            booked.waits = false;
            booked.given_back = true;
            ledger.comes_to("a task returned");
            ledger.cancelled += 1;
            ended += 1;
        }
        if ended != returned {
            ledger.fail(format!(
                "{returned} tasks were returned, and {ended} have ended"
            ));
        }
        ledger.phase = Phase::Closed;
    }

    /// Marks the timer as closing, and returns whether it was open.
    fn begins_to_close(&self) -> bool {
        self.book_runs();
        let mut ledger = self.ledger();
        let first = ledger.phase == Phase::Open;
        if first {
            ledger.phase = Phase::Closing;
            ledger.closed_amid_a_batch = ledger.in_batch;
            if ledger.in_batch {
                ledger.comes_to("a shutdown during a batch");
            }
        }
        first
    }

    /// Ends the driver as the runtime does. `end` drops the driver.
    pub(super) fn end_driver(&self, end: impl FnOnce()) {
        self.is_noisy();
        let first = self.begins_to_close();
        self.ledger().driver_is_dropped = first;
        end();
        if !first {
            return;
        }
        let tasks = self.tasks.lock().unwrap().clone();
        let finished: Vec<_> = tasks.iter().map(|task| task.is_finished()).collect();
        let mut ledger = self.ledger();
        for (number, finished) in finished.into_iter().enumerate() {
            if finished && std::mem::take(&mut ledger.tasks[number].waits) {
                ledger.tasks[number].given_back = true;
                ledger.cancelled += 1;
            }
        }
        ledger.phase = Phase::Closed;
    }

    pub(super) fn poll_all(&self) {
        let places: Vec<_> = self.places.lock().unwrap().keys().copied().collect();
        for place in places {
            self.poll(place, Some(Manners::default()));
        }
    }

    /// Drops all futures, cancels all tasks, and drops the handle of the timer.
    pub(super) fn let_go(&self) {
        // Wakers may make new futures while they are dropped.
        loop {
            let place = self.places.lock().unwrap().keys().next().copied();
            let Some(place) = place else {
                break;
            };
            self.take_away(place);
        }
        let tasks = self.tasks.lock().unwrap().len();
        (0..tasks).for_each(|number| self.cancel(number));
        let timer = self.timer.lock().unwrap().take();
        drop(timer);
    }

    /// Runs the tasks of the runtime until none can continue.
    pub(super) async fn settle(&self) {
        let runs = || self.ledger().runs;
        let mut before = u64::MAX;
        while before != runs() {
            before = runs();
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            self.book_runs();
        }
    }

    /// Makes the threads available again, unless one of them is stuck.
    pub(super) fn release(self: Arc<Self>) -> Result<(), String> {
        let world = Arc::into_inner(self).ok_or("a reference to the world is left")?;
        let threads = world.others.into_iter().chain(world.helpers);
        threads.for_each(Helper::release);
        Ok(())
    }
}

impl Kept {
    fn period(&self) -> Duration {
        match self {
            Self::Interval(interval) => interval.period(),
            _ => Duration::ZERO,
        }
    }
}

impl Task {
    fn cancel(&self) -> bool {
        match self {
            Self::Once(task) | Self::Again(task) => task.cancel(),
        }
    }

    fn has_started(&self) -> bool {
        match self {
            Self::Once(task) | Self::Again(task) => task.is_started(),
        }
    }

    fn is_finished(&self) -> bool {
        match self {
            Self::Once(task) | Self::Again(task) => task.is_finished(),
        }
    }
}

//! The state that a program acts on: futures in their places, and the timer with its driver.
//!
//! The function `act` performs every act. The function may be called on any thread and within any waker.

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
    runtime::{self, worker_index},
    time::{Instant, MissedTickBehavior},
};
use tokio_test::task;

use super::{
    super::harness::{Harness, TestAlarm},
    guest::{Guest, Hostile},
    ledger::{Ledger, Number, Phase},
    program::{Act, Guest as Manners, Moment, PLACES, Place, Span, What, Which},
    threads::{AFTER_THE_END, Helper, PATIENCE, Progress},
};
use crate::{
    driver::clock::{manual::Manual, saturating_add},
    futures::{Interval, Sleep, Timeout},
    ground::unwind,
    timer::{Metrics, Timer},
};

/// The maximum depth to which the acts of wakers are nested.
const DEPTH: usize = 3;

/// The maximum number of sleeps in a storm.
const STORM: usize = 1_500;

/// The number of acts and polls after which the wakers of a program stop acting. A waker may act on a storm whose
/// wakers also act, so without a limit one program in 20,000 polls 500,000 times.
pub(super) const ACTS: u64 = 20_000;

/// The maximum time that can pass in a program. A clock can reach 292 years.
const YEARS: Duration = Duration::from_secs(280 * 365 * 86_400);

type Driver = task::Spawn<Pin<Box<dyn Future<Output = ()> + Send>>>;

pub(super) struct World {
    this: Weak<Self>,
    timer: Mutex<Option<Timer>>,
    /// The driver, or `None` while it is polled and after it has ended.
    driver: Mutex<Option<Driver>>,
    pub(super) alarm: TestAlarm,
    clock: Manual,
    runtime: runtime::Handle,
    /// The futures by place: first the places of the program, then the places of the storm.
    places: Mutex<BTreeMap<Place, Occupant>>,
    ledger: Mutex<Ledger>,
    last_moment: Mutex<Instant>,
    guests: AtomicU64,
    storm: AtomicUsize,
    depth: AtomicUsize,
    pub(super) progress: Progress,
    /// Whether something has happened that may wake the driver or set the alarm.
    pub(super) noise: AtomicBool,
    /// Two threads for each shard that are not workers. The first four threads act for the program, and the others
    /// act while a waker blocks.
    threads: [Helper; 8],
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
    Timeout(Timeout<Pending<()>>),
    Interval(Interval),
}

impl Kept {
    /// Polls the future. If an interval ticks, returns the instant of the tick and the period.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Instant, Duration)>> {
        match self {
            Self::Sleep(sleep) => Pin::new(sleep).poll(cx).map(|()| None),
            Self::Timeout(timeout) => Pin::new(timeout).poll(cx).map(|elapsed| {
                elapsed.unwrap_err();
                None
            }),
            Self::Interval(interval) => {
                let period = interval.period();
                interval.poll_tick(cx).map(|tick| Some((tick, period)))
            }
        }
    }
}

impl World {
    pub(super) fn new(
        harness: Harness,
        runtime: runtime::Handle,
        tick: Duration,
        progress: Progress,
    ) -> Arc<Self> {
        let (clock, start) = (harness.clock, harness.start);
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            timer: Mutex::new(Some(harness.timer)),
            driver: Mutex::new(Some(harness.driver)),
            alarm: harness.alarm,
            clock,
            runtime,
            places: Mutex::default(),
            ledger: Mutex::new(Ledger::new(clock, start, tick)),
            last_moment: Mutex::new(start),
            guests: AtomicU64::new(0),
            storm: AtomicUsize::new(PLACES),
            depth: AtomicUsize::new(0),
            progress,
            noise: AtomicBool::new(false),
            threads: std::array::from_fn(|thread| Helper::of(thread % 4)),
        })
    }

    /// Locks the ledger. While the caller holds this lock, it must not call any function of the crate.
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

    fn timer(&self) -> Option<Timer> {
        self.timer.lock().unwrap().clone()
    }

    pub(super) fn metrics(&self) -> Option<Metrics> {
        Some(self.timer()?.metrics())
    }

    fn is_noisy(&self) {
        self.noise.store(true, SeqCst);
    }

    pub(super) fn has_driver(&self) -> bool {
        self.driver.lock().unwrap().is_some()
    }

    pub(super) fn driver_is_woken(&self) -> bool {
        let driver = self.driver.lock().unwrap();
        driver.as_ref().is_some_and(|driver| driver.is_woken())
    }

    /// Polls the driver once, if there is a driver.
    pub(super) fn poll_driver(&self) {
        let driver = self.driver.lock().unwrap().take();
        let Some(mut driver) = driver else {
            return;
        };
        if driver.poll().is_pending() {
            *self.driver.lock().unwrap() = Some(driver);
        } else if self.timer().is_some() {
            self.fail("the driver has ended");
        }
    }

    /// Drops the driver, as the end of its runtime does.
    fn drop_driver(&self) {
        let driver = self.driver.lock().unwrap().take();
        let Some(driver) = driver else {
            return;
        };
        self.is_noisy();
        {
            let mut ledger = self.ledger();
            ledger.phase = Phase::Closing;
            ledger.closed_amid_a_batch = ledger.in_batch;
            ledger.comes_to("a driver dropped");
            if ledger.in_batch {
                ledger.comes_to("a driver dropped during a batch");
            }
        }
        drop(driver);
        self.ledger().phase = Phase::Closed;
    }

    /// Lets time pass on the timer's clock. Also advances tokio's clock, which other code of the crate reads.
    pub(super) fn pass(&self, time: Duration) {
        {
            let (now, mut ledger) = (self.now(), self.ledger());
            let since = now - ledger.start;
            let is_long = time > Duration::from_secs(365 * 86_400);
            // A future that waits for the end of the runtime has a sleep of tokio, which elapses after 30 years.
            if since.saturating_add(time) > YEARS || is_long && ledger.phase != Phase::Open {
                return;
            }
            if is_long && ledger.pending() > 0 {
                ledger.comes_to("a leap of years");
            }
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

    pub(super) fn duration(&self, span: Span) -> Duration {
        match span {
            Span::Time(time) => time,
            Span::Ticks(ticks) => self.ledger().tick * ticks,
        }
    }

    fn moment(&self, moment: Moment) -> Instant {
        let start = self.ledger().start;
        let tick = self.duration(Span::Ticks(1));
        let now = self.now();
        let mut last = self.last_moment.lock().unwrap();
        *last = match moment {
            Moment::In(span) => saturating_add(now, self.duration(span)),
            Moment::Ago(span) => now.checked_sub(self.duration(span)).unwrap_or(start),
            Moment::Edge(level, slots, off) => {
                let slot = (tick.as_nanos() as u64) << (6 * level);
                let since = (now - start).as_nanos() as u64;
                let edge = (since / slot + 1 + slots) * slot;
                start + Duration::from_nanos(edge.saturating_add_signed(off))
            }
            Moment::Same => *last,
        };
        *last
    }

    /// Performs the acts of a waker.
    pub(super) fn within(&self, acts: Vec<Act>) {
        self.is_noisy();
        let is_deep = self.depth.fetch_add(1, SeqCst) >= DEPTH;
        if !is_deep && self.progress.load(SeqCst) < ACTS {
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
        self.elsewhere(4 + thread, move |world| world.within(acts));
    }

    /// Runs `job` on a thread that is not a worker. The thread belongs to the shard with the number `thread % 4`.
    pub(super) fn elsewhere(&self, thread: usize, job: impl FnOnce(&Self) + Send + 'static) {
        let Some(world) = self.this.upgrade() else {
            return;
        };
        let done = self.threads[thread].run(PATIENCE, &self.progress, move || {
            assert_eq!(worker_index(), None);
            let _its_time = world.runtime.enter();
            job(&world);
        });
        if done.is_none() {
            self.fail("another thread waits forever");
        }
    }

    pub(super) fn act(&self, act: Act) {
        self.progress.fetch_add(1, SeqCst);
        match act {
            Act::Put(place, what, moment, manners) => {
                self.put(place, what, self.moment(moment));
                if let Some(manners) = manners {
                    self.poll(place, Some(manners));
                }
            }
            Act::Storm(number, moment, every, manners) => {
                let at = self.moment(moment);
                for n in 0..number {
                    let place = self.storm.fetch_add(1, SeqCst);
                    if place > STORM {
                        return;
                    }
                    self.put(place, What::Sleep, at);
                    let manners = (n % every == 0).then(|| manners.clone());
                    self.poll(place, Some(manners.unwrap_or_default()));
                }
            }
            Act::Poll(which, manners) => {
                for place in self.places(which) {
                    self.poll(place, manners.clone());
                }
            }
            Act::Reset(which, moment) => {
                let at = self.moment(moment);
                for place in self.places(which) {
                    self.reset(place, at);
                }
            }
            Act::Drop(which) => {
                for place in self.places(which) {
                    self.take(place)
                        .into_iter()
                        .for_each(|it| self.drop_occupant(it));
                }
            }
            Act::Metrics => drop(self.metrics()),
            Act::Pass(span) => {
                self.ledger().on_time_since = None;
                self.pass(self.duration(span));
            }
            Act::DropDriver => self.drop_driver(),
        }
    }

    fn places(&self, which: Which) -> Vec<Place> {
        match which {
            Which::In(place) => vec![place],
            Which::Storm(every) => {
                let places = self.places.lock().unwrap();
                let storm = places.range(PLACES..).step_by(every);
                storm.map(|(place, _)| *place).collect()
            }
        }
    }

    /// Puts an occupant into a place. Drops the future that was there. A waker may have put it there in the
    /// meantime.
    fn place(&self, place: Place, occupant: Occupant) {
        let old = self.places.lock().unwrap().insert(place, occupant);
        if let Some(old) = old {
            self.drop_occupant(old);
        }
    }

    fn take(&self, place: Place) -> Option<Occupant> {
        self.places.lock().unwrap().remove(&place)
    }

    fn put(&self, place: Place, what: What, at: Instant) {
        let Some(timer) = self.timer() else {
            return;
        };
        let kept = match what {
            What::Sleep => Kept::Sleep(timer.sleep_until(at)),
            What::Timeout => Kept::Timeout(timer.timeout_at(at, pending())),
            What::Interval(period) => {
                let mut interval = timer.interval_at(at, period);
                interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
                Kept::Interval(interval)
            }
        };
        let occupant = Occupant {
            kept,
            deadline: at,
            number: None,
            is_ready: false,
        };
        self.place(place, occupant);
    }

    fn poll(&self, place: Place, manners: Option<Manners>) {
        self.progress.fetch_add(1, SeqCst);
        if worker_index().is_some() && self.ledger().phase == Phase::Closing {
            // The future may wait for its entry or for the end of the runtime. The program cannot know which.
            return;
        }
        let Some(mut occupant) = self.take(place) else {
            return;
        };
        self.is_noisy();
        let registered = {
            let mut ledger = self.ledger();
            ledger.waiting(occupant.number).map(|it| it.guest.clone())
        };
        let waited = registered.is_some();
        let (guest, is_new) = match (manners, registered) {
            (None, Some(guest)) => {
                self.comes_to("the same waker again");
                (guest, false)
            }
            (manners, _) => {
                let number = self.guests.fetch_add(1, SeqCst);
                let manners = manners.unwrap_or_default();
                (Guest::new(self.this.clone(), number, manners), true)
            }
        };
        if let (Some(number), true, true) = (occupant.number, waited, is_new) {
            self.comes_to("another waker");
            // During the poll, the old and the new waker may act. So either of these wakers may be woken.
            self.ledger().may_replace(number, &guest);
        }
        let polled = {
            let waker = guest.waker();
            catch_unwind(AssertUnwindSafe(|| {
                occupant.kept.poll(&mut Context::from_waker(&waker))
            }))
        };
        self.polled(&mut occupant, guest, (is_new, waited), polled);
        self.place(place, occupant);
    }

    /// Records the outcome of a poll.
    fn polled(
        &self,
        occupant: &mut Occupant,
        guest: Arc<Guest>,
        (is_new, waited): (bool, bool),
        polled: std::thread::Result<Poll<Option<(Instant, Duration)>>>,
    ) {
        let now = self.now();
        let mut ledger = self.ledger();
        // The ledger has a reference to a guest that was registered before.
        let is_kept = Arc::strong_count(&guest) > if is_new { 1 } else { 2 };
        let may_wait = now < occupant.deadline && worker_index().is_some();
        match polled {
            Ok(Poll::Pending) => match (ledger.phase, occupant.number) {
                _ if occupant.is_ready => ledger.fail("a future was ready and is pending"),
                (Phase::Closed, _) if is_kept && may_wait => {
                    return ledger.waits_for_runtime(guest);
                }
                // The timer ended during the poll, after the poll had replaced the waker.
                (Phase::Closed, _) if !is_kept && waited => {}
                (Phase::Open | Phase::Closing, Some(number)) if waited => {
                    return ledger.replaces(number, guest);
                }
                (Phase::Open | Phase::Closing, None) => {
                    occupant.number = Some(ledger.registers(guest, occupant.deadline));
                    return;
                }
                _ => ledger.fail("a poll is pending after a wake, or after the end"),
            },
            Ok(Poll::Ready(tick)) => {
                if now < occupant.deadline {
                    ledger.fail(format!("ready {:?} early", occupant.deadline - now));
                }
                if let Some(number) = occupant.number.take() {
                    ledger.comes_out(number);
                    ledger.comes_to("a future that was woken and is ready");
                } else {
                    ledger.comes_to("a future that is ready at once");
                }
                occupant.is_ready = tick.is_none();
                if let Some((due, period)) = tick {
                    ledger.comes_to("an interval that ticked");
                    if due != occupant.deadline {
                        ledger.fail("an interval ticks for a wrong instant");
                    }
                    // In tokio, an interval's tick is missed if it is late by more than 5 ms.
                    let is_missed = now > due + Duration::from_millis(5);
                    occupant.deadline = if is_missed { now } else { due } + period;
                }
            }
            Err(payload) if payload.is::<Hostile>() => {
                // If the replaced waker panicked while it was dropped, the new waker is registered.
                let waits = ledger.waiting(occupant.number).is_some();
                if let (Some(number), true, true) = (occupant.number, waits && is_new, is_kept) {
                    return ledger.replaces(number, guest);
                }
            }
            Err(payload) => {
                let message = unwind::message(&*payload).unwrap_or_default();
                ledger.comes_to("a poll that panics after the end");
                let may_panic = ledger.phase != Phase::Open && worker_index().is_none();
                if !may_panic || now >= occupant.deadline || !message.contains(AFTER_THE_END) {
                    ledger.fail(format!("a poll panicked: {message}"));
                }
            }
        }
        if is_new {
            ledger.leaves(guest);
        }
    }

    /// Returns whether the program knows if the future's entry is still in the wheel.
    ///
    /// In a batch, the driver may have removed the entry and not woken its waker yet. A sleep tells that, and the
    /// oracle records it.
    fn is_clear(&self, occupant: &Occupant) -> bool {
        let is_elapsed = match &occupant.kept {
            Kept::Sleep(sleep) => Some(sleep.is_elapsed()),
            _ => None,
        };
        let now = self.now();
        let mut ledger = self.ledger();
        let (is_open, in_batch) = (ledger.phase == Phase::Open, ledger.in_batch);
        let waits = ledger.waiting(occupant.number).is_some();
        match (is_elapsed, occupant.number) {
            (None, _) => return !(in_batch && waits && occupant.deadline <= now),
            (Some(true), Some(number)) if is_open && waits => {
                ledger.comes_to("a sleep that has fired and is not woken yet");
                ledger.comes_out(number);
            }
            (Some(false), Some(_)) if is_open && !waits => {
                ledger.fail("a sleep was woken and is not elapsed");
            }
            _ => {}
        }
        true
    }

    fn reset(&self, place: Place, at: Instant) {
        let Some(mut occupant) = self.take(place) else {
            return;
        };
        let is_clear = self.is_clear(&occupant);
        let now = self.now();
        let mut must_fire = false;
        {
            let mut ledger = self.ledger();
            let waits = ledger.waiting(occupant.number).is_some();
            let is_closing = waits && ledger.phase != Phase::Open;
            if is_closing || !is_clear || matches!(occupant.kept, Kept::Timeout(_)) {
                drop(ledger);
                return self.place(place, occupant);
            }
            occupant.number = occupant.number.filter(|_| waits);
            if let Some(number) = occupant.number {
                let (old, new) = (ledger.due(occupant.deadline), ledger.due(at));
                if new.is_none_or(|new| old.is_some_and(|old| old <= new)) {
                    ledger.comes_to("a reset to a later deadline");
                } else {
                    ledger.comes_to("a reset to an earlier deadline");
                    self.is_noisy();
                    must_fire = at <= now;
                }
                ledger.resets(number, at);
            }
        }
        let reset = AssertUnwindSafe(|| match &mut occupant.kept {
            Kept::Sleep(sleep) => Pin::new(sleep).reset(at),
            Kept::Interval(interval) => interval.reset_at(at),
            Kept::Timeout(_) => {}
        });
        if catch_unwind(reset).is_err() {
            self.fail("a reset panicked");
        }
        if must_fire {
            self.comes_to("a reset that fires");
            if self.ledger().waiting(occupant.number).is_some() {
                self.fail("a reset to a past deadline does not fire");
            }
        }
        occupant.deadline = at;
        occupant.is_ready = false;
        self.place(place, occupant);
    }

    fn drop_occupant(&self, occupant: Occupant) {
        if !self.is_clear(&occupant) {
            // The future joins the storm, and is dropped later.
            return self.place(self.storm.fetch_add(1, SeqCst), occupant);
        }
        if let Some(number) = occupant.number {
            self.ledger().gives_up(number);
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(occupant))) {
            if !payload.is::<Hostile>() {
                self.fail("a drop panicked");
            }
        }
    }

    pub(super) fn poll_all(&self) {
        let places: Vec<_> = self.places.lock().unwrap().keys().copied().collect();
        for place in places {
            self.poll(place, Some(Manners::default()));
        }
    }

    /// Drops all futures, and drops the handle of the timer.
    pub(super) fn let_go(&self) {
        // Wakers may make new futures while they are dropped.
        loop {
            let first = self.places.lock().unwrap().pop_first();
            let Some((_, occupant)) = first else {
                break;
            };
            self.drop_occupant(occupant);
        }
        let timer = self.timer.lock().unwrap().take();
        drop(timer);
    }

    /// Makes the threads available again, unless one of them is stuck.
    pub(super) fn release(self: Arc<Self>) -> Result<(), String> {
        let world = Arc::into_inner(self).ok_or("a reference to the world is left")?;
        world.threads.into_iter().for_each(Helper::release);
        Ok(())
    }
}

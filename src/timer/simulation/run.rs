//! Runs a program step by step, and lets the oracle check the state after each step.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak, atomic::Ordering::SeqCst},
    task::Poll,
    thread,
    time::Duration,
};

use tokio::{
    runtime,
    task::{coop::unconstrained, yield_now},
    time::Instant,
};
use tokio_test::task;

use super::{
    super::harness::{Harness, Setup, TestAlarm},
    ledger::{Ledger, Phase, Ticks},
    program::{Act, End, Program, Step, Thread},
    threads::{Helper, PATIENCE, Progress},
    world::World,
};
use crate::driver::{room::FEW, shared::Shared, turn::STEPS};

/// The maximum number of times that the alarm goes off while time passes in one step.
const RINGS: usize = 200;

/// The number of levels of a wheel. An entry cascades at most this many times before it fires.
const LEVELS: usize = 11;

struct Simulation {
    world: Arc<World>,
    alarm: TestAlarm,
    /// The driver, or `None` after it has ended.
    driver: Option<task::Spawn<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    runtime: runtime::Runtime,
    shared: Weak<Shared>,
    /// Whether the alarm has lost its instant and was not set again.
    forgotten: bool,
    /// Whether the alarm does not notice that its instant has passed when it is polled.
    deaf: bool,
    /// Whether every handle of the timer was dropped.
    let_go: bool,
    /// The number of times that an exact alarm went off and no entry fired.
    vain_rings: usize,
}

/// Runs a program on its own thread. Returns the events that occurred, or the error.
pub(super) fn run(program: &Program) -> Result<BTreeSet<&'static str>, String> {
    run_counted(program, &Progress::default())
}

/// Runs a program like [`run`], and counts its steps.
pub(super) fn run_counted(
    program: &Program,
    progress: &Progress,
) -> Result<BTreeSet<&'static str>, String> {
    let thread = Helper::of(0);
    let program = program.clone();
    let its_progress = progress.clone();
    // The patience of each wait within the program is shorter.
    let ran = thread.run(4 * PATIENCE, progress, move || {
        catch_unwind(AssertUnwindSafe(|| {
            Simulation::new(&program, its_progress).run(&program)
        }))
        .unwrap_or_else(|_| Err("the simulation panicked".to_owned()))
    });
    let Ok(ran) = ran else {
        return Err("the program hangs".to_owned());
    };
    thread.release();
    ran
}

impl Simulation {
    fn new(program: &Program, progress: Progress) -> Self {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let setup = Setup {
            shards: program.shards,
            tick: program.tick,
            max_pending: program.max_pending,
            is_real: program.is_real,
            load: program.is_busy.then(Arc::default),
        };
        let harness = Harness::on(runtime, &setup);
        let ticks = Ticks {
            start: harness.start,
            tick: program.tick,
        };
        let runtime = harness.runtime.unwrap();
        let shared = Arc::downgrade(&harness.timer.handle.shared);
        let world = World::new(
            harness.timer,
            harness.clock,
            runtime.handle().clone(),
            program.max_pending,
            Ledger::new(ticks),
            progress,
        );
        Self {
            world,
            alarm: harness.alarm,
            driver: Some(harness.driver),
            runtime,
            shared,
            forgotten: false,
            deaf: false,
            let_go: false,
            vain_rings: 0,
        }
    }

    fn run(mut self, program: &Program) -> Result<BTreeSet<&'static str>, String> {
        for (number, step) in program.steps.iter().enumerate() {
            self.step(step);
            self.check(|| format!("after step {number}, {step:?}"))?;
        }
        self.end(program.end)?;
        let outcomes = self.world.ledger().take_outcomes();
        let Self {
            world,
            runtime,
            driver,
            alarm,
            ..
        } = self;
        drop((driver, alarm, runtime));
        world.release()?;
        Ok(outcomes)
    }

    fn is_woken(&self) -> bool {
        self.driver.as_ref().is_some_and(|driver| driver.is_woken())
    }

    fn step(&mut self, step: &Step) {
        let before = (self.is_woken(), self.alarm.set_for());
        let is_time = !matches!(step, Step::Do(_, act) if !matches!(act, Act::Stall(_)));
        self.world.noise.store(false, SeqCst);
        match step {
            Step::Do(thread, act) => self.act(*thread, act.clone()),
            Step::Pass(span) => {
                let ticks = self.world.ledger().ticks;
                self.world.pass(span.duration(ticks.tick));
            }
            Step::Run(span, thread) => {
                let ticks = self.world.ledger().ticks;
                self.run_for(span.duration(ticks.tick), *thread);
            }
            Step::Ring(times) => (0..*times).for_each(|_| self.ring()),
            Step::Forget => {
                self.alarm.forget();
                self.forgotten = true;
            }
            Step::Deaf(deaf) => {
                self.alarm.set_deaf(*deaf);
                self.deaf = *deaf;
            }
            Step::Drive(thread) => self.drive(*thread),
            Step::PollDriver(thread) => self.poll_driver(*thread),
            Step::DropDriver => self.drop_driver(),
        }
        self.world.clear_limbo();
        self.settle();
        let noisy = self.world.noise.load(SeqCst);
        if !is_time && !noisy && before != (self.is_woken(), self.alarm.set_for()) {
            self.world
                .fail("the driver was woken or its alarm was set without a reason");
        }
    }

    /// Runs the tasks of the runtime.
    fn settle(&mut self) {
        if self.world.ledger().tasks.is_empty() {
            return;
        }
        self.runtime.block_on(self.world.settle());
    }

    fn act(&self, thread: Thread, act: Act) {
        match thread {
            Thread::Worker => self.on_worker(|| {
                assert_eq!(runtime::worker_index(), Some(0));
                self.world.act(act);
            }),
            Thread::Other(thread) => self.world.elsewhere(thread, |world| {
                assert_eq!(runtime::worker_index(), None);
                world.act(act);
            }),
        }
    }

    /// Runs `act` like a task of the runtime.
    fn on_worker<R>(&self, act: impl FnOnce() -> R) -> R {
        let mut act = Some(act);
        self.runtime.block_on(async {
            let done = unconstrained(poll_fn(|_| Poll::Ready(act.take().map(|act| act())))).await;
            // `yield_now` lets the runtime wake the tasks that have yielded.
            yield_now().await;
            done.expect("polled once")
        })
    }

    /// Lets the alarm go off on a worker. The waker of the alarm takes a turn.
    fn ring(&mut self) {
        let set_for = self.alarm.set_for();
        if set_for.is_some_and(|at| at > self.world.now()) {
            self.world.comes_to("an alarm that is early");
        }
        let before = self.wakeups();
        let alarm = self.alarm.clone();
        let rings = |this: &Self| this.on_worker(|| alarm.ring());
        if self.within_turn(rings).is_err() {
            self.world.fail("the waker of the alarm panicked");
        }
        let has_heard = self.is_woken() || self.wakeups() > before;
        if set_for.is_some() && self.driver.is_some() && !has_heard {
            self.world.fail("the alarm does not wake the driver");
        }
    }

    /// Returns the number of turns of the driver.
    fn wakeups(&self) -> Option<u64> {
        self.world.metrics().map(|metrics| metrics.driver_wakeups())
    }

    /// Runs `act`, in which the driver may take a turn. Returns an error if `act` panics.
    fn within_turn<R>(&mut self, act: impl FnOnce(&Self) -> R) -> thread::Result<R> {
        let fired = |this: &Self| this.world.metrics().map(|metrics| metrics.fired());
        // If a waker resets a sleep to the past, the reset fires the sleep. The steps of the turn
        // do not include such a sleep.
        let resets = |this: &Self| this.world.ledger().resets;
        let (before, resets_before) = (fired(self), resets(self));
        let turns_before = self.wakeups();
        self.world.progress.advance();
        self.world.ledger().in_batch = true;
        let result = catch_unwind(AssertUnwindSafe(|| act(self)));
        let mut ledger = self.world.ledger();
        ledger.in_batch = false;
        let now = self.world.now();
        ledger.between_batches = ledger.next_due().is_some_and(|due| due <= now);
        drop(ledger);
        let turn = STEPS as u64 + resets(self) - resets_before;
        if fired(self) > before.map(|before| before + turn) {
            self.world.fail("one poll takes more than a turn");
        }
        if self.wakeups() > turns_before {
            self.forgotten = false;
        }
        self.world.clear_limbo();
        result
    }

    /// Polls the driver's task once.
    fn poll_driver(&mut self, thread: Thread) {
        let Some(mut driver) = self.driver.take() else {
            return;
        };
        let polled = self.within_turn(|this| match thread {
            Thread::Worker => this.on_worker(|| driver.poll()),
            Thread::Other(_) => {
                let _its_runtime = this.runtime.enter();
                driver.poll()
            }
        });
        match polled {
            Ok(Poll::Pending) => self.driver = Some(driver),
            Ok(Poll::Ready(())) => {
                let is_over = self.world.ledger().phase == Phase::Closed || self.let_go;
                if !is_over {
                    self.world.fail("the driver has ended");
                }
            }
            Err(_) => self.world.fail("the driver panicked"),
        }
    }

    /// Polls the driver's task until it waits for a notification.
    fn drive(&mut self, thread: Thread) {
        let work = |ledger: &Ledger| ledger.registered + ledger.resets;
        let (before, pending) = {
            let ledger = self.world.ledger();
            (work(&ledger), ledger.pending())
        };
        let late = {
            let ledger = self.world.ledger();
            ledger.next_due().is_some_and(|due| due < self.world.now())
        };
        if late && self.driver.is_some() {
            self.world.comes_to("a driver that is late");
        }
        let turns_before = self.wakeups();
        let mut polls = 0;
        loop {
            self.poll_driver(thread);
            self.settle();
            if !self.is_woken() {
                break;
            }
            polls += 1;
            let new = work(&self.world.ledger()) - before;
            // On each level, the driver visits an entry once. It also visits the slot of the entry
            // once more, and finds the slot empty. Each turn except the last turn uses all of its
            // steps, or wakes the maximum number of tasks. Before each turn, the driver gives way.
            let steps = (pending + new) * 2 * LEVELS as u64;
            let turns = steps / STEPS as u64 + (pending + new) / FEW as u64;
            if polls > 16 + new + 2 * turns {
                return self
                    .world
                    .fail(format!("the driver does not park in {polls} polls"));
            }
        }
        if polls > 1 {
            self.world.comes_to("a driver that yields");
        }
        if self.driver.is_some() && self.wakeups() > turns_before {
            let now = self.world.now();
            let mut ledger = self.world.ledger();
            let is_due = ledger.next_due().is_some_and(|due| due <= now);
            if ledger.phase == Phase::Open && is_due {
                ledger.fail("the driver parks while an entry is due");
            }
        }
    }

    /// Lets time pass. The alarm is exact, and the driver is polled when it is woken.
    fn run_for(&mut self, time: Duration, thread: Thread) {
        self.drive(thread);
        let now = self.world.now();
        let Some(end) = now.checked_add(time) else {
            return;
        };
        for _ in 0..RINGS {
            let now = self.world.now();
            self.world.ledger().on_time_since.get_or_insert(now);
            let set_for = self.alarm.set_for().filter(|_| self.driver.is_some());
            let Some(at) = set_for.filter(|at| *at <= end) else {
                self.world.pass(end.saturating_duration_since(now));
                break;
            };
            self.world.pass(at.saturating_duration_since(now));
            if self.world.now() < at {
                // The time of the program has reached its maximum.
                break;
            }
            let done = |ledger: &Ledger| (ledger.fired, ledger.registered);
            let before = done(&self.world.ledger());
            self.ring();
            self.drive(thread);
            let now = self.world.now();
            let mut ledger = self.world.ledger();
            let after = done(&ledger);
            if after == before {
                self.vain_rings += 1;
                ledger.comes_to("an alarm at which nothing fires");
                let is_set = self.alarm.set_for().is_some_and(|at| at > now);
                if ledger.pending() == 0 && is_set {
                    ledger.fail("the alarm is set while nothing is pending");
                }
            }
            let work = (ledger.registered + ledger.resets) as usize;
            if self.vain_rings > work * LEVELS {
                ledger.fail("the alarm goes off too often without an entry that fires");
            }
        }
        self.world.ledger().on_time_since = None;
    }

    fn drop_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            self.world.comes_to("a driver dropped");
            let world = self.world.clone();
            self.on_worker(|| world.end_driver(|| drop(driver)));
        }
    }

    /// Checks the rules that hold between any two steps.
    fn check(&mut self, when: impl FnOnce() -> String) -> Result<(), String> {
        let now = self.world.now();
        let metrics = self.world.metrics();
        let is_armed = |due: Instant| self.alarm.set_for().is_some_and(|at| at <= due.max(now));
        if self.alarm.set_for().is_some() && std::mem::take(&mut self.forgotten) {
            self.world
                .comes_to("an alarm that has forgotten and is set again");
        }
        let mut ledger = self.world.ledger();
        ledger.settle();
        if let (Some(due), Phase::Open, Some(driver)) =
            (ledger.next_due(), ledger.phase, &self.driver)
        {
            if !driver.is_woken() && !is_armed(due) && !self.forgotten {
                let (set_for, in_time) = (self.alarm.set_for(), due.saturating_duration_since(now));
                ledger.fail(format!(
                    "nothing will wake the driver: due in {in_time:?}, set for {set_for:?}"
                ));
            }
        }
        if let Some(metrics) = metrics {
            let real = (metrics.pending(), metrics.registered());
            let booked = (ledger.pending(), ledger.registered);
            if real != booked {
                ledger.fail(format!(
                    "pending and registered are {real:?}, expected {booked:?}"
                ));
            }
            let real = (metrics.fired(), metrics.cancelled());
            let booked = (ledger.fired, ledger.cancelled);
            if real != booked && !ledger.closed_amid_a_batch {
                ledger.fail(format!(
                    "fired and canceled are {real:?}, expected {booked:?}"
                ));
            }
        }
        if ledger.phase == Phase::Closing {
            ledger.fail("the end of the timer does not finish");
        }
        let is_closed = ledger.phase == Phase::Closed;
        if is_closed && self.driver.is_some() && !self.is_woken() {
            ledger.fail("the driver does not learn of the end");
        }
        if is_closed && ledger.tasks.iter().any(|task| task.waits) {
            ledger.fail("a task waits after the end");
        }
        let lost = |task: &&super::ledger::Task| {
            let ended = task.runs > 0 && task.delay.is_none();
            let ends = [ended, task.cancelled, task.given_back];
            !task.waits && task.delay.is_none() && ends.iter().filter(|end| **end).count() != 1
        };
        if ledger.tasks.iter().any(|task| lost(&task)) {
            ledger.fail("a task is not in exactly one place");
        }
        let held = |task: &super::ledger::Task| {
            (task.drops).is_some_and(|drops| drops != u32::from(!task.waits))
        };
        if ledger.tasks.iter().any(held) {
            ledger.fail("the value of a task is dropped too early, too late or twice");
        }
        let verdict = ledger.verdict();
        verdict.map_err(|failure| format!("{failure}, {}", when()))
    }

    /// Ends the timer, and checks that nothing is left.
    fn end(&mut self, end: End) -> Result<(), String> {
        match end {
            End::Shutdown => self.act(Thread::Worker, Act::Shutdown),
            End::DriverDropped => self.drop_driver(),
            End::LetGo => {}
        }
        self.world.clear_limbo();
        self.settle();
        self.check(|| "at the end".to_owned())?;
        if !matches!(end, End::LetGo) {
            self.on_worker(|| self.world.poll_all());
            self.check(|| "polled after the end".to_owned())?;
        }
        self.let_go = true;
        self.on_worker(|| self.world.let_go());
        self.settle();
        if self.driver.is_some() {
            if !self.is_woken() {
                self.world
                    .fail("the driver does not learn that the timer has ended");
            }
            self.poll_driver(Thread::Worker);
            if self.driver.is_some() {
                self.world.fail("the driver does not end");
            }
        }
        self.check(|| "after the last handle was dropped".to_owned())?;
        if self.shared.strong_count() != 0 {
            return Err("the timer is not freed".to_owned());
        }
        Ok(())
    }
}

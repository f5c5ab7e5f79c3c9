//! Runs a program step by step, and lets the oracle check the state after each step.

use std::{
    collections::BTreeSet,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak, atomic::Ordering::SeqCst},
    time::Duration,
};

use tokio::{
    runtime,
    task::{coop::unconstrained, yield_now},
    time::Instant,
};

use super::{
    super::harness::{Harness, Setup},
    ledger::{Ledger, Phase},
    program::{Act, Program, Step, Thread},
    threads::{Helper, PATIENCE, Progress},
    world::World,
};
use crate::driver::{room::FEW, shared::Shared, turn::STEPS};

/// The maximum number of times that the alarm goes off while time passes in one step.
const RINGS: usize = 200;

/// The number of levels of a wheel. An entry cascades at most this many times before it fires.
const LEVELS: u64 = 11;

struct Simulation {
    world: Arc<World>,
    runtime: runtime::Runtime,
    shared: Weak<Shared>,
    /// Whether the alarm has lost its instant and was not set again.
    forgotten: bool,
    /// The number of times that an exact alarm went off and no entry fired.
    vain_rings: u64,
}

/// Runs a program on its own thread, and counts its steps. Returns the events that occurred, or the error.
pub(super) fn run(
    program: &Program,
    progress: &Progress,
) -> Result<BTreeSet<&'static str>, String> {
    let thread = Helper::of(0);
    let program = program.clone();
    let its_progress = progress.clone();
    // The patience of each wait within the program is shorter.
    let ran = thread.run(4 * PATIENCE, progress, move || {
        Simulation::new(&program, its_progress).run(&program)
    });
    let ran = ran.ok_or("the program hangs")?;
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
            is_real: program.is_real,
            load: program.is_busy.then(Arc::default),
        };
        let mut harness = Harness::on(runtime, &setup);
        let runtime = harness.runtime.take().unwrap();
        Self {
            shared: Arc::downgrade(&harness.timer.handle.shared),
            world: World::new(harness, runtime.handle().clone(), program.tick, progress),
            runtime,
            forgotten: false,
            vain_rings: 0,
        }
    }

    fn run(mut self, program: &Program) -> Result<BTreeSet<&'static str>, String> {
        for (number, step) in program.steps.iter().enumerate() {
            self.step(step);
            self.check(format_args!("after step {number}, {step:?}"))?;
        }
        self.end(program.end)
    }

    fn step(&mut self, step: &Step) {
        let before = (self.world.driver_is_woken(), self.world.alarm.set_for());
        self.world.noise.store(false, SeqCst);
        match step {
            Step::Do(thread, act) => {
                let act = act.clone();
                self.on(*thread, move |world| world.act(act));
                let after = (self.world.driver_is_woken(), self.world.alarm.set_for());
                if !self.world.noise.load(SeqCst) && before != after {
                    self.world
                        .fail("the driver was woken or its alarm was set without a reason");
                }
            }
            Step::Run(span, thread) => {
                let time = self.world.duration(*span);
                self.run_for(time, *thread);
            }
            Step::Ring => self.ring(),
            Step::Forget => {
                self.world.alarm.forget();
                self.forgotten = true;
            }
            Step::Deaf(deaf) => self.world.alarm.set_deaf(*deaf),
            Step::Drive(thread) => self.drive(*thread),
            Step::PollDriver(thread) => self.turn(*thread, World::poll_driver),
        }
    }

    /// Runs `job` on another thread, or on a worker like a task of the runtime.
    fn on(&self, thread: Thread, job: impl FnOnce(&World) + Send + 'static) {
        match thread {
            Thread::Worker => self.runtime.block_on(async {
                unconstrained(async {
                    assert_eq!(runtime::worker_index(), Some(0));
                    job(&self.world);
                })
                .await;
                // `yield_now` lets the runtime wake the tasks that have yielded.
                yield_now().await;
            }),
            Thread::Other(thread) => self.world.elsewhere(thread, job),
        }
    }

    /// Lets the alarm go off on a worker. The waker of the alarm takes a turn.
    fn ring(&mut self) {
        let set_for = self.world.alarm.set_for();
        if set_for.is_some_and(|at| at > self.world.now()) {
            self.world.comes_to("an alarm that is early");
        }
        let before = self.wakeups();
        self.turn(Thread::Worker, |world| world.alarm.ring());
        let has_heard = self.world.driver_is_woken() || self.wakeups() > before;
        if set_for.is_some() && self.world.has_driver() && !has_heard {
            self.world.fail("the alarm does not wake the driver");
        }
    }

    /// Returns the number of turns of the driver.
    fn wakeups(&self) -> Option<u64> {
        self.world.metrics().map(|metrics| metrics.driver_wakeups())
    }

    /// Runs `job`, in which the driver may take a turn.
    fn turn(&mut self, thread: Thread, job: fn(&World)) {
        let before = (self.world.metrics(), self.world.ledger().resets);
        self.world.progress.fetch_add(1, SeqCst);
        self.world.ledger().in_batch = true;
        let result = catch_unwind(AssertUnwindSafe(|| self.on(thread, job)));
        let now = self.world.now();
        {
            let mut ledger = self.world.ledger();
            ledger.in_batch = false;
            ledger.between_batches = ledger.next_due().is_some_and(|due| due <= now);
        }
        let after = (self.world.metrics(), self.world.ledger().resets);
        // If a waker resets a sleep to the past, the reset fires the sleep. The steps of the turn do not include such
        // a sleep.
        let most = STEPS as u64 + after.1 - before.1;
        if let (Some(before), Some(after)) = (before.0, after.0) {
            if after.fired() > before.fired() + most {
                self.world.fail("one poll takes more than a turn");
            }
            self.forgotten &= after.driver_wakeups() == before.driver_wakeups();
        }
        if result.is_err() {
            self.world
                .fail("the driver or the waker of its alarm panicked");
        }
    }

    /// Polls the driver's task until it waits for a notification.
    fn drive(&mut self, thread: Thread) {
        let work = |ledger: &Ledger| ledger.registered + ledger.resets;
        let is_late = |ledger: &Ledger, now| ledger.next_due().is_some_and(|due| due < now);
        let (before, pending) = {
            let (now, has_driver) = (self.world.now(), self.world.has_driver());
            let mut ledger = self.world.ledger();
            if has_driver && is_late(&ledger, now) {
                ledger.comes_to("a driver that is late");
            }
            (work(&ledger), ledger.pending())
        };
        let turns_before = self.wakeups();
        let mut polls = 0;
        loop {
            self.turn(thread, World::poll_driver);
            if !self.world.driver_is_woken() {
                break;
            }
            polls += 1;
            let new = work(&self.world.ledger()) - before;
            // On each level, the driver visits an entry once. It also visits the slot of the entry once more, and
            // finds the slot empty. Each turn except the last turn uses all of its steps, or wakes the maximum
            // number of tasks. Before each turn, the driver gives way.
            let steps = (pending + new) * 2 * LEVELS;
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
        if self.world.has_driver() && self.wakeups() > turns_before {
            let now = self.world.now() + Duration::from_nanos(1);
            let mut ledger = self.world.ledger();
            if is_late(&ledger, now) {
                ledger.fail("the driver parks while an entry is due");
            }
        }
    }

    /// Lets time pass. The alarm is exact, and the driver is polled when it is woken.
    fn run_for(&mut self, time: Duration, thread: Thread) {
        self.drive(thread);
        let Some(end) = self.world.now().checked_add(time) else {
            return;
        };
        for _ in 0..RINGS {
            let now = self.world.now();
            self.world.ledger().on_time_since.get_or_insert(now);
            let set_for = self.world.alarm.set_for();
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
            if done(&ledger) == before {
                self.vain_rings += 1;
                ledger.comes_to("an alarm at which nothing fires");
                let is_set = self.world.alarm.set_for().is_some_and(|at| at > now);
                if ledger.pending() == 0 && is_set {
                    ledger.fail("the alarm is set while nothing is pending");
                }
            }
            if self.vain_rings > (ledger.registered + ledger.resets) * LEVELS {
                ledger.fail("the alarm goes off too often without an entry that fires");
            }
        }
        self.world.ledger().on_time_since = None;
    }

    /// Checks the rules that hold between any two steps.
    fn check(&mut self, when: impl Display) -> Result<(), String> {
        let now = self.world.now();
        let metrics = self.world.metrics();
        let set_for = self.world.alarm.set_for();
        let is_woken = self.world.driver_is_woken();
        if set_for.is_some() && std::mem::take(&mut self.forgotten) {
            self.world
                .comes_to("an alarm that has forgotten and is set again");
        }
        let mut ledger = self.world.ledger();
        ledger.settle();
        let is_armed = |due: Instant| set_for.is_some_and(|at| at <= due.max(now));
        match (ledger.phase, ledger.next_due()) {
            (Phase::Open, Some(due)) if !is_woken && !is_armed(due) && !self.forgotten => {
                let in_time = due.saturating_duration_since(now);
                ledger.fail(format!(
                    "nothing will wake the driver: due in {in_time:?}, set for {set_for:?}"
                ));
            }
            (Phase::Closing, _) => ledger.fail("the end of the timer does not finish"),
            (Phase::Closed, _) if set_for.is_some() => {
                ledger.fail("the alarm is set after the end");
            }
            _ => {}
        }
        if let Some(metrics) = metrics {
            let mut ends = [metrics.fired(), metrics.cancelled()];
            if ledger.closed_amid_a_batch {
                ends = [ledger.fired, ledger.cancelled];
            }
            let real = ([metrics.pending(), metrics.registered()], ends);
            let booked = (
                [ledger.pending(), ledger.registered],
                [ledger.fired, ledger.cancelled],
            );
            if real != booked {
                ledger.fail(format!(
                    "([pending, registered], [fired, canceled]) is {real:?}, expected {booked:?}"
                ));
            }
        }
        let verdict = ledger.verdict();
        verdict.map_err(|failure| format!("{failure}, {when}"))
    }

    /// Ends the timer and then its runtime. Checks that nothing is left.
    fn end(mut self, end: Option<Thread>) -> Result<BTreeSet<&'static str>, String> {
        if let Some(thread) = end {
            self.on(thread, |world| world.act(Act::DropDriver));
            self.check("at the end")?;
            for thread in [Thread::Worker, Thread::Other(0)] {
                self.on(thread, World::poll_all);
                self.check(format_args!("polled on {thread:?} after the end"))?;
            }
        }
        self.on(Thread::Worker, World::let_go);
        if self.world.has_driver() {
            if !self.world.driver_is_woken() {
                self.world
                    .fail("the driver does not learn that the timer has ended");
            }
            self.turn(Thread::Worker, World::poll_driver);
            if self.world.has_driver() {
                self.world.fail("the driver does not end");
            }
        }
        self.check("after the last handle was dropped")?;
        if self.shared.strong_count() != 0 {
            return Err("the timer is not freed".to_owned());
        }
        drop(self.runtime);
        self.world.ledger().runtime_has_ended()?;
        let outcomes = std::mem::take(&mut self.world.ledger().outcomes);
        self.world.release()?;
        Ok(outcomes)
    }
}

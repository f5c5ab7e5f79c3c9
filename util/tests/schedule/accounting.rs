//! Threads schedule, cancel and shut down at random. Each task has exactly one fate, and its handle must agree: it ran,
//! it was canceled, a shutdown returned it, the scheduler refused it, or it ended with its runtime.
//!
//! The output of a failed test ends with a seed. `SCHEDULE_SEED=n` runs its round, but with another order of the threads.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
    sync::atomic::AtomicU32,
};

use tokio::runtime::Runtime;

use super::*;

type Task = ScheduledTask<usize>;

fn seeds(rounds: usize) -> Vec<u64> {
    match std::env::var("SCHEDULE_SEED") {
        Ok(seed) => vec![seed.parse().expect("a seed is a number")],
        Err(_) => (0..rounds)
            .map(|n| RandomState::new().hash_one(n))
            .collect(),
    }
}

/// The observed events of a task. Each count except `runs` is at most 1.
#[derive(Debug, Default)]
struct Fate {
    id: usize,
    is_periodic: bool,
    refused: AtomicU32,
    cancelled: AtomicU32,
    given_back: AtomicU32,
    runs: AtomicU32,
    running: AtomicU32,
    dropped: AtomicU32,
}

fn count(event: &AtomicU32) {
    event.fetch_add(1, Ordering::AcqRel);
}

fn counted(event: &AtomicU32) -> u32 {
    event.load(Ordering::Acquire)
}

/// A value that the task holds until it is dropped.
struct Token(Arc<Fate>);

impl Drop for Token {
    fn drop(&mut self) {
        count(&self.0.dropped);
    }
}

thread_local! {
    /// Whether this thread runs the tasks that a shutdown returned.
    static RUNS_GIVEN_BACK: Cell<bool> = const { Cell::new(false) };
}

/// One run of a task. It checks that no other run of the task is active.
async fn run(fate: &Fate, yields: u64) {
    if RUNS_GIVEN_BACK.get() {
        return count(&fate.given_back);
    }
    count(&fate.runs);
    assert_eq!(fate.running.fetch_add(1, Ordering::AcqRel), 0);
    for _ in 0..yields {
        yield_now().await;
    }
    assert_eq!(fate.running.fetch_sub(1, Ordering::AcqRel), 1);
}

/// The end of a task.
#[derive(Clone, Copy)]
struct Kind {
    yields: u64,
    panics: bool,
    runs: u32,
}

async fn once(Token(fate): &Token, kind: Kind) -> usize {
    run(fate, kind.yields).await;
    if kind.panics {
        quiet_panic();
    }
    fate.id
}

/// The closure and its current run share the token.
fn again_and_again(
    token: Token,
    kind: Kind,
) -> impl FnMut() -> Pin<Box<dyn Future<Output = ControlFlow<usize>> + Send>> + Send {
    let token = Arc::new(token);
    move || {
        let token = token.clone();
        Box::pin(async move {
            let is_last = counted(&token.0.runs) + 1 >= kind.runs;
            let panics = is_last && kind.panics;
            let id = once(&token, Kind { panics, ..kind }).await;
            match is_last {
                false => ControlFlow::Continue(()),
                true => ControlFlow::Break(id),
            }
        })
    }
}

/// The end of the scheduler of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Shutdown,
    RuntimeDropped,
    /// The scheduler does not end. All tasks end by themselves.
    None,
}

struct Round {
    scheduler: Scheduler,
    fates: Mutex<Vec<Arc<Fate>>>,
    /// Handles that any thread may cancel or drop.
    handles: Mutex<Vec<(Arc<Fate>, Arc<Task>)>>,
    /// The delays in µs. One of this many tasks has a deadline in an hour.
    delays: u64,
    far: u64,
    /// Whether threads also drop handles of these tasks.
    detach_far: bool,
}

fn is_far(task: &Task) -> bool {
    task.deadline() > Instant::now() + secs(60)
}

impl Round {
    fn new(runtime: &Runtime, random: &mut Random, max: Option<usize>) -> Self {
        let mut builder = Scheduler::builder();
        if let Some(max) = max {
            builder = builder.max_pending(max);
        }
        Self {
            scheduler: runtime.block_on(async { builder.build() }),
            fates: Mutex::default(),
            handles: Mutex::default(),
            delays: 1 + random.below(3_000),
            far: 2 + random.below(10),
            detach_far: true,
        }
    }

    fn schedule(&self, random: &mut Random) {
        let call = random.below(6);
        let fate = {
            let mut fates = self.fates.lock().unwrap();
            let (id, is_periodic) = (fates.len(), call < 2);
            let fate = Fate {
                id,
                is_periodic,
                ..Fate::default()
            };
            fates.push(Arc::new(fate));
            fates[id].clone()
        };
        let token = Token(fate.clone());
        let delay = match random.below(4) {
            0 => Duration::ZERO,
            _ if random.one_in(self.far) => secs(3_600),
            _ => Duration::from_micros(random.below(self.delays)),
        };
        let kind = Kind {
            yields: random.below(3),
            panics: random.one_in(10),
            runs: 1 + random.below(20) as u32,
        };
        let period = Duration::from_nanos(1 + random.below(200_000));
        let scheduler = &self.scheduler;
        let once = |token: Token| async move { once(&token, kind).await };
        let scheduled = match call {
            0 => {
                let make = again_and_again(token, kind);
                (scheduler.schedule_at_fixed_rate(delay, period, make)).map_err(drop_refused)
            }
            1 => {
                let make = again_and_again(token, kind);
                (scheduler.schedule_with_fixed_delay(delay, period, make)).map_err(drop_refused)
            }
            2 => {
                let deadline = Instant::now() - ms(1) + delay;
                (scheduler.schedule_at(deadline, once(token))).map_err(drop_refused)
            }
            _ => (scheduler.schedule(delay, once(token))).map_err(drop_refused),
        };
        match scheduled {
            Ok(task) => self.handles.lock().unwrap().push((fate, Arc::new(task))),
            Err(was_there) => {
                assert!(was_there, "the error returns it");
                count(&fate.refused);
            }
        }
    }

    fn detach(&self, random: &mut Random) {
        let mut handles = self.handles.lock().unwrap();
        let chosen = random.below(handles.len().max(1) as u64) as usize;
        if (handles.get(chosen)).is_some_and(|(_, task)| self.detach_far || !is_far(task)) {
            let detached = handles.swap_remove(chosen);
            drop(handles);
            drop(detached);
        }
    }

    fn cancel(&self, random: &mut Random) {
        let chosen = {
            let handles = self.handles.lock().unwrap();
            let chosen = random.below(handles.len().max(1) as u64) as usize;
            handles.get(chosen).cloned()
        };
        if let Some((fate, task)) = chosen {
            if task.cancel() {
                count(&fate.cancelled);
                assert!(task.is_cancelled() && !task.cancel());
                // The test waits for a run that has started.
                assert!(fate.is_periodic || task.is_finished());
            }
        }
    }

    fn shut_down(&self) {
        let left = self.scheduler.shutdown();
        assert!(self.scheduler.is_shutdown());
        assert!(left.is_sorted_by_key(Unstarted::deadline));
        for task in left {
            RUNS_GIVEN_BACK.set(true);
            // Some tasks panic.
            let _ = catch_unwind(AssertUnwindSafe(|| tokio_test::block_on(task)));
            RUNS_GIVEN_BACK.set(false);
        }
    }

    fn operate(&self, random: &mut Random) {
        match random.below(15) {
            0..8 => self.schedule(random),
            8..13 => self.cancel(random),
            13 => self.detach(random),
            _ => dawdle(random.below(20)),
        }
    }

    /// Waits until all tasks have ended, and checks the account of the round. Adds its counts to `totals`.
    fn settle(self, end: End, totals: &mut Totals) {
        let fates = self.fates.into_inner().unwrap();
        for fate in &fates {
            // Detached tasks may still run.
            wait_until(|| counted(&fate.dropped) > 0);
        }
        for (fate, task) in self.handles.into_inner().unwrap() {
            let task = Arc::into_inner(task).expect("the threads are done");
            let result = tokio_test::block_on(task);
            let [cancelled, given_back, runs] =
                [&fate.cancelled, &fate.given_back, &fate.runs].map(counted);
            match result {
                Ok(output) => {
                    assert_eq!(output, fate.id);
                    assert!(runs > 0 && cancelled + given_back == 0, "{fate:?}");
                }
                Err(error) if error.is_panic() => {
                    assert!(runs > 0 && cancelled + given_back == 0, "{fate:?}");
                }
                Err(error) if error.is_cancelled() => assert_eq!(cancelled, 1, "{fate:?}"),
                Err(error) => {
                    assert!(error.is_shutdown(), "{error}");
                    assert_eq!(cancelled, 0, "{fate:?}");
                    match end {
                        // A periodic task may have been in its last run.
                        End::Shutdown if runs == 0 => assert_eq!(given_back, 1, "{fate:?}"),
                        End::Shutdown => assert!(fate.is_periodic),
                        End::RuntimeDropped => assert_eq!(given_back, 0, "{fate:?}"),
                        End::None => panic!("{error}: {fate:?}"),
                    }
                }
            }
        }
        for fate in &fates {
            assert_eq!(counted(&fate.dropped), 1, "{fate:?}");
            let [refused, cancelled, given_back, runs] =
                [&fate.refused, &fate.cancelled, &fate.given_back, &fate.runs].map(counted);
            assert!(refused + cancelled + given_back <= 1, "{fate:?}");
            if refused > 0 {
                assert_eq!(runs, 0, "{fate:?}");
            }
            totals.refused += refused;
            totals.cancelled += cancelled;
            totals.given_back += given_back;
            totals.runs += runs;
            if !fate.is_periodic {
                let places = refused + cancelled + given_back + runs;
                // A task that the runtime dropped has no other fate.
                assert!(
                    places == 1 || end == End::RuntimeDropped && places == 0,
                    "{fate:?}"
                );
            }
        }
        assert_eq!(self.scheduler.pending(), 0);
    }
}

/// Returns whether a refusal returned the task. Drops the task.
fn drop_refused<F>(error: ScheduleError<F>) -> bool {
    let was_refused = error.is_full() || error.is_shutdown();
    drop(error.into_inner());
    was_refused
}

/// The counts of all rounds. They show whether the rounds have covered every fate.
#[derive(Debug, Default)]
struct Totals {
    refused: u32,
    cancelled: u32,
    given_back: u32,
    runs: u32,
}

/// Runs a round on several threads, each with its own random numbers. Calls `end` in the meantime.
fn work_on(round: &Round, random: &mut Random, end: impl FnOnce()) {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let mut random = Random(random.next());
            scope.spawn(move || (0..OPERATIONS).for_each(|_| round.operate(&mut random)));
        }
        let pause = random.below(2_000);
        thread::sleep(Duration::from_micros(pause));
        end();
    });
}

const THREADS: u64 = 4;
const OPERATIONS: u64 = 400;

/// Runs a round for each seed. The rounds must cover every fate that `end` allows.
fn rounds(count: usize, end: End, round: impl Fn(&mut Random, &mut Totals) + Send + 'static) {
    does_not_hang(move || {
        let mut totals = Totals::default();
        for seed in seeds(count) {
            println!("SCHEDULE_SEED={seed}");
            round(&mut Random(seed), &mut totals);
        }
        let places = totals.refused.min(totals.cancelled).min(totals.runs);
        assert!(places > 0, "{totals:?}");
        assert_eq!(totals.given_back > 0, end == End::Shutdown, "{totals:?}");
    });
}

#[test]
fn each_task_is_in_one_place_when_its_timer_is_shut_down() {
    rounds(60, End::Shutdown, |random, totals| {
        let runtime = multi_thread(2);
        let max = [None, Some(1), Some(30)][random.below(3) as usize];
        let round = Round::new(&runtime, random, max);
        let (closers, inside) = (1 + random.below(2), random.one_in(2));
        work_on(&round, random, || {
            thread::scope(|scope| {
                for _ in 0..closers {
                    scope.spawn(|| {
                        let _entered = inside.then(|| runtime.enter());
                        round.shut_down();
                    });
                }
            });
        });
        round.settle(End::Shutdown, totals);
    });
}

#[test]
fn each_task_is_in_one_place_when_its_runtime_is_dropped() {
    rounds(60, End::RuntimeDropped, |random, totals| {
        let runtime = multi_thread(2);
        let max = [None, Some(1), Some(30)][random.below(3) as usize];
        let round = Round::new(&runtime, random, max);
        let in_background = random.one_in(2);
        work_on(&round, random, || match in_background {
            true => runtime.shutdown_background(),
            false => drop(runtime),
        });
        round.settle(End::RuntimeDropped, totals);
    });
}

/// All tasks end, and the limit then has room for as many tasks as before.
#[test]
fn each_task_is_in_one_place_when_all_come_to_their_ends() {
    rounds(40, End::None, |random, totals| {
        let runtime = multi_thread(2);
        let max = [1, 7, 100, 1_000][random.below(4) as usize];
        let mut round = Round::new(&runtime, random, Some(max));
        round.detach_far = false;
        work_on(&round, random, || {});
        for (fate, task) in &*round.handles.lock().unwrap() {
            // Another thread may have done it.
            if is_far(task) && task.cancel() {
                count(&fate.cancelled);
            }
        }
        let scheduler = round.scheduler.clone();
        round.settle(End::None, totals);
        assert_eq!((limit::room(&scheduler), scheduler.pending()), (max, 0));
    });
}

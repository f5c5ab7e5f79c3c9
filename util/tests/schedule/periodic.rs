//! Periodic tasks: the starts of their runs, and their ends.

use tokio_wheel_util::schedule::RunOutput;

use super::*;

const BEHAVIORS: [MissedTickBehavior; 3] = [
    MissedTickBehavior::Burst,
    MissedTickBehavior::Delay,
    MissedTickBehavior::Skip,
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    Rate,
    Delay,
}

const PACES: [Pace; 2] = [Pace::Rate, Pace::Delay];

pub(super) fn every<C, F>(
    scheduler: &Scheduler,
    pace: Pace,
    initial: Duration,
    period: Duration,
    make: C,
) -> ScheduledTask<<F::Output as RunOutput>::Output>
where
    C: FnMut() -> F + Send + 'static,
    F: Future<Output: RunOutput> + Send + 'static,
{
    let task = match pace {
        Pace::Rate => scheduler.schedule_at_fixed_rate(initial, period, make),
        Pace::Delay => scheduler.schedule_with_fixed_delay(initial, period, make),
    };
    task.unwrap()
}

/// The start and the deadline of a run, since the beginning.
type Run = (Duration, Duration);

/// A program for a task: the duration of each run, and the time and duration of each delay.
#[derive(Clone, Debug)]
struct Program {
    /// `None` stands for a fixed delay.
    behavior: Option<MissedTickBehavior>,
    initial: Duration,
    period: Duration,
    runs: Vec<Duration>,
    hold_ups: Vec<(Duration, Duration)>,
}

fn millis(most: u64) -> impl Strategy<Value = Duration> {
    prop_oneof![0..=6_u64, 0..=most].prop_map(ms)
}

fn program() -> impl Strategy<Value = Program> {
    let hold_up = (millis(300), millis(300));
    (
        proptest::sample::select(&BEHAVIORS[..]),
        millis(50),
        millis(50),
        proptest::collection::vec(millis(200), 1..40),
        proptest::collection::vec(hold_up, 0..4),
    )
        .prop_map(|(behavior, initial, period, runs, hold_ups)| Program {
            behavior: Some(behavior),
            initial,
            period: period.max(ms(1)),
            runs,
            hold_ups,
        })
}

async fn work(takes: Duration) {
    if !takes.is_zero() {
        tokio::time::sleep(takes).await;
    }
}

async fn hold_up(hold_ups: Vec<(Duration, Duration)>) {
    for (after, by) in hold_ups {
        work(after).await;
        // Tasks with a deadline in this millisecond run first.
        settle().await;
        tokio::time::advance(by).await;
    }
}

async fn on_a_schedule(scheduler: Scheduler, program: Program) -> Vec<Run> {
    let start = Instant::now();
    let log = Arc::new(Mutex::new(Vec::new()));
    let handle = Arc::new(OnceLock::<ScheduledTask<()>>::new());
    let mut runs = program.runs.into_iter();
    let make = {
        let (log, handle) = (log.clone(), handle.clone());
        move || {
            let due = handle.get().unwrap().deadline();
            let run = (start.elapsed(), due - start);
            log.lock().unwrap().push(run);
            let takes = runs.next().unwrap();
            let last = runs.len() == 0;
            async move {
                work(takes).await;
                match last {
                    false => ControlFlow::Continue(()),
                    true => ControlFlow::Break(()),
                }
            }
        }
    };
    let (initial, period) = (program.initial, program.period);
    let task = match program.behavior {
        Some(behavior) => scheduler.schedule_at_fixed_rate_with(behavior, initial, period, make),
        None => scheduler.schedule_with_fixed_delay(initial, period, make),
    };
    handle.set(task.unwrap()).unwrap();
    let held_up = tokio::spawn(hold_up(program.hold_ups));
    while !handle.get().unwrap().is_finished() {
        tokio::time::sleep(secs(3_600)).await;
    }
    held_up.await.unwrap();
    std::mem::take(&mut *log.lock().unwrap())
}

/// Returns the ticks of an interval, which `differential` compares with tokio's.
async fn in_a_loop(program: Program) -> Vec<Run> {
    let start = Instant::now();
    let held_up = tokio::spawn(hold_up(program.hold_ups));
    let mut interval = tokio_wheel::interval_at(start + program.initial, program.period);
    interval.set_missed_tick_behavior(program.behavior.unwrap());
    let ticks = tokio::spawn(async move {
        let mut log = Vec::new();
        for takes in program.runs {
            let due = interval.tick().await;
            log.push((start.elapsed(), due - start));
            work(takes).await;
        }
        log
    });
    held_up.await.unwrap();
    ticks.await.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_fixed_rate_is_that_of_an_interval(program in program()) {
        let on_a_schedule = async { on_a_schedule(Scheduler::new(), program.clone()).await };
        let ours = paused().block_on(on_a_schedule);
        let interval = paused().block_on(async { in_a_loop(program).await });
        prop_assert_eq!(ours, interval, "left: schedule, right: interval");
    }
}

fn undisturbed(behavior: Option<MissedTickBehavior>, times: [u64; 2], runs: &[u64]) -> Program {
    let [initial, period] = times.map(ms);
    let runs = runs.iter().map(|takes| ms(*takes)).collect();
    Program {
        behavior,
        initial,
        period,
        runs,
        hold_ups: Vec::new(),
    }
}

/// The lateness of a run is measured with the clock, not in ticks.
#[tokio::test(start_paused = true)]
async fn a_coarse_tick_delays_no_run_that_is_late() {
    let program = undisturbed(Some(MissedTickBehavior::Burst), [30, 30], &[33; 300]);
    let log = on_a_schedule(with_tick(ms(100)), program).await;
    let mut free = Duration::ZERO;
    for (n, (started, due)) in (1..).zip(log) {
        assert_eq!(due, ms(30) * n);
        let tick = ms((due.as_millis() as u64).next_multiple_of(100));
        let expected = if due <= free { free } else { tick };
        assert_eq!(started, expected, "run {n}, due at {due:?}");
        free = started + ms(33);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_delay_counts_from_the_end_of_a_run() {
    let program = undisturbed(None, [3, 10], &[0, 1, 7, 250, 0, 10, 0]);
    let log = on_a_schedule(Scheduler::new(), program).await;
    let expected = [3, 13, 24, 41, 301, 311, 331].map(|start| (ms(start), ms(start)));
    assert_eq!(log, expected);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_that_of_the_run_at_hand() {
    for (pace, second) in [(Pace::Rate, 30), (Pace::Delay, 34)] {
        let start = Instant::now();
        let task = every(&Scheduler::new(), pace, ms(10), ms(20), || sleep(ms(4)));
        let deadline = || task.deadline() - start;
        assert_eq!(deadline(), ms(10), "of the first");
        assert!(!task.is_started());
        sleep(ms(12)).await;
        assert_eq!(deadline(), ms(10), "of the one under way");
        assert!(task.is_started());
        sleep(ms(5)).await;
        assert_eq!(deadline(), ms(second), "of the next");
        assert!(task.is_started(), "it has run");
        sleep(ms(2_000)).await;
        assert!(!task.is_finished());
        drop(task);
    }
}

/// The run completes. The task drops its closure, and the run's output or panic, before its handle shows the end.
#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_while_it_runs() {
    for (pace, end) in [
        (Pace::Rate, "continue"),
        (Pace::Delay, "continue"),
        (Pace::Rate, "break"),
        (Pace::Delay, "panic"),
    ] {
        let (runs, drops) = (Count::default(), Count::default());
        let (ran, dropped, of_closure) = (runs.clone(), drops.clone(), drops.on_drop());
        let make = move || {
            let _closure_holds = &of_closure;
            let (ran, held) = (ran.clone(), dropped.on_drop());
            async move {
                sleep(ms(4)).await;
                ran.add();
                match end {
                    "continue" => ControlFlow::Continue(()),
                    "break" => ControlFlow::Break(held),
                    _ => resume_unwind(Box::new(held)),
                }
            }
        };
        let mut task = every(&Scheduler::new(), pace, ms(10), ms(10), make);
        let finds = looks(&mut task, &drops);
        sleep(ms(12)).await;
        assert!(task.cancel() && !task.cancel());
        assert!(task.is_cancelled() && !task.is_finished());
        assert_eq!((runs.get(), drops.get()), (0, 0));
        sleep(ms(50)).await;
        assert_eq!((runs.get(), finds.try_recv()), (1, Ok(2)), "{end}");
        assert!(task.is_finished() && !task.cancel());
        assert!(result(task).await.err().unwrap().is_cancelled());
    }
}

/// The closure panics. The handle returns the panic, and no further run starts. `accounting` has futures that panic.
#[tokio::test(start_paused = true)]
async fn a_task_ends_with_a_panic() {
    for (pace, panics_at) in [(Pace::Rate, 1), (Pace::Delay, 3)] {
        let scheduler = Scheduler::new();
        let (runs, drops) = (Count::default(), Count::default());
        let make = {
            let (runs, held) = (runs.clone(), drops.on_drop());
            move || {
                let _closure_holds = &held;
                if runs.add() == panics_at {
                    resume_unwind(Box::new("in make"));
                }
                yield_now()
            }
        };
        let task = every(&scheduler, pace, ms(10), ms(10), make);
        sleep(ms(100)).await;
        assert!(task.is_finished() && !task.is_cancelled() && !task.cancel());
        assert_eq!((runs.get(), drops.get()), (panics_at, 1));
        let error = result(task).await.unwrap_err();
        assert!(error.to_string().contains("in make"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_period_beyond_all_instants_saturates() {
    for pace in PACES {
        let scheduler = Scheduler::new();
        let (zero, max) = (Duration::ZERO, Duration::MAX);
        let (make, runs, _) = counted(yield_now);
        let once = every(&scheduler, pace, zero, max, make);
        // `tokio::spawn` accepts such a body, too. Its output is the type `!`.
        let never = every(&scheduler, pace, max, max, || async {
            panic!("it ran") as ()
        });
        let years = secs(30 * 365 * 86_400);
        settle().await;
        tokio::time::advance(years).await;
        sleep(ms(1)).await;
        assert_eq!(runs.get(), 1);
        assert!(once.deadline() > Instant::now() + years);
        assert!(!never.is_started() && once.cancel() && never.cancel());
    }
}

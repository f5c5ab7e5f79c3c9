//! `saturated` measures how late timers fire on a runtime whose workers always have another task to
//! run, or whose shared queue is often full.
//!
//! A task of the load wakes itself in each poll. It does not call `tokio::task::yield_now`, because
//! tokio defers that waker until the worker has polled the drivers, and so with them its timers.

use std::{
    future::{pending, poll_fn},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio::{runtime::Runtime, sync::Notify};

use crate::{
    Figure,
    lab::{on_workers, runtime_for, spawn_polled, stay_on_core},
    late::{Late, nanos_late},
    peer::{Peer, PeerKind},
    with_peer, workload,
};

const PROBE: Duration = Duration::from_millis(10);

/// How often a wheel with 64 slots per level moves the entries of a whole slot to lower levels: every 4.1 s of a
/// runtime's age. This crate and `tokio::time` have such wheels, as 1/64 ms times 64³ equals 1 ms times 64².
const CASCADE: Duration = Duration::from_millis(4_096);

/// The time from the beginning of such a cascade, which moves an eighth of the idle timers, to the
/// end of the probe's last sleep.
const BEFORE_END: Duration = Duration::from_secs(1);

/// The time from the beginning of the probe's last sleep to the first expiry of an idle timer, and
/// the time over which the idle timers then expire.
const IDLE_AFTER: Duration = Duration::from_millis(700);
const IDLE_SPREAD: Duration = Duration::from_secs(20);

/// The sleeping tasks of the scenes, and how long each of them sleeps.
const STEADY: (u64, Duration) = (3_000, Duration::from_millis(100));
const SERVED: (u64, Duration) = (2_000, PROBE);
const SUSTAINED: Duration = Duration::from_secs(1);
const FEW: (u64, Duration) = (20, Duration::from_millis(3));

/// The time between two broadcasts of [`Scene::Broadcast`], and between two blocks of [`Scene::Blocked`].
const BROADCAST: Duration = Duration::from_millis(30);
const BLOCK: Duration = Duration::from_millis(7);

/// The number of requests of [`Scene::Service`] between two reads of the clock.
const REQUESTS: u64 = 500_000;

/// The time from the start of the load to the deadline of a crowd. The load has settled by then.
const CROWD_AFTER: Duration = Duration::from_millis(800);

/// How long a sample waits for the rest of a crowd. A sample should end within a minute.
const CROWD_PATIENCE: Duration = Duration::from_secs(50);

/// The first sleep of a task ends at least this long after the start, when the load runs.
const SETTLED: Duration = Duration::from_millis(100);

const LAST: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
pub enum Scene {
    /// A probe sleeps 10 ms again and again. Beside it are idle sleeps, each in a task of its own.
    Sleeps,
    /// 3,000 tasks sleep 100 ms again and again, so 30,000 sleeps fire each second.
    Steady,
    /// 2,000 tasks sleep 10 ms again and again. The load is the workload `rpc`, at full speed.
    Service,
    /// Tasks sleep 1 s again and again, so a rate of sleeps fires each second.
    Sustained,
    /// Tasks sleep until the same instant. A probe sleeps 10 ms again and again.
    Crowd,
    /// 20 tasks sleep 3 ms again and again. The load waits for a broadcast every 30 ms.
    Broadcast,
    /// 20 tasks sleep 3 ms again and again. Each task of the load sleeps 7 ms, and then blocks its worker.
    Blocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Load {
    pub scene: Scene,
    /// The number of worker threads of the runtime. 0 is a current-thread runtime.
    pub workers: usize,
    /// The number of tasks that are always ready. A service has clients and servers instead.
    pub tasks: usize,
    pub length: Duration,
    /// The number of sleeping tasks of `Sustained` and `Crowd`, or of timers that stay pending.
    pub count: u64,
    /// How long the probe runs. A crowd ends its sample itself. A sample lasts [`lead`](Load::lead) longer.
    pub lasting: Duration,
}

/// Takes a sample. The process must not have done anything else before. Returns how late the probe or the sleeping
/// tasks woke. A sleep that has expired and is pending at the end counts with the lateness that it has reached.
pub fn sample(peer: PeerKind, load: Load) -> Vec<Figure> {
    let ((late, last), probe) = with_peer!(peer, P => match load.scene {
        Scene::Sleeps => (sleepers::<P>(load, (1, PROBE)), None),
        Scene::Steady => (sleepers::<P>(load, STEADY), None),
        Scene::Service => (sleepers::<P>(load, SERVED), None),
        Scene::Sustained => (sleepers::<P>(load, (load.count, SUSTAINED)), None),
        Scene::Crowd => crowd::<P>(load),
        Scene::Broadcast | Scene::Blocked => (sleepers::<P>(load, FEW), None),
    });
    let mut figures = vec![
        ("p50", late.ms(0.5), "ms"),
        ("p99", late.ms(0.99), "ms"),
        ("worst", late.ms(1.0), "ms"),
        ("count of", late.count() as f64, "sleeps"),
        ("early of", late.early() as f64, "sleeps"),
    ];
    if load.scene == Scene::Sustained {
        figures.push(("last second's p50", last.ms(0.5), "ms"));
        figures.push(("last second's p99", last.ms(0.99), "ms"));
    }
    if let Some(probe) = probe {
        figures.push(("probe's p99", probe.ms(0.99), "ms"));
        figures.push(("probe's worst", probe.ms(1.0), "ms"));
    }
    figures
}

fn sleepers<P: Peer>(load: Load, (tasks, each): (u64, Duration)) -> (Late, Late) {
    let stage = Stage::new::<P>(load);
    // The tasks do not all begin together.
    let begin = stage.start + each.min(SETTLED);
    let first = move |i| begin + each.mul_f64(i as f64 / tasks as f64);
    let end = stage.start + load.lasting;
    let sleepers = stage.spawn_sleepers::<P>(tasks, first, each, end);
    stage.start_load::<P>();
    stage.observe(&sleepers, || Instant::now() < end)
}

/// Also returns how late a probe beside the crowd woke.
fn crowd<P: Peer>(load: Load) -> ((Late, Late), Option<Late>) {
    let stage = Stage::new::<P>(load);
    let expiry = stage.start + CROWD_AFTER;
    let mut end = expiry + CROWD_PATIENCE;
    // Each task of the crowd sleeps once.
    let crowd = stage.spawn_sleepers::<P>(load.count, move |_| expiry, 2 * CROWD_PATIENCE, end);
    let begin = stage.start + PROBE;
    let probe = stage.spawn_sleepers::<P>(1, move |_| begin, PROBE, end);
    stage.start_load::<P>();
    let late = stage.observe(&crowd, || {
        let now = Instant::now();
        // A task that has ended no longer holds its notes.
        if crowd
            .iter()
            .rev()
            .all(|sleeps| Arc::strong_count(sleeps) == 1)
        {
            // The probe goes on for a while.
            end = end.min(now + SETTLED);
        }
        now < end
    });
    (late, Some(evaluate(&probe, Instant::now()).0))
}

/// What a sleeping task has done. The main thread reads it at the end, because a task that starves never reports.
#[derive(Default)]
struct Sleeps {
    deadline: Option<Instant>,
    woken: Vec<(Instant, Instant)>,
}

type Observed = Arc<Mutex<Sleeps>>;

const PANICKED: &str = "a sleeping task panicked";

/// Returns how late the sleeps woke until `end`, and how late those within the last second before.
fn evaluate(observed: &[Observed], end: Instant) -> (Late, Late) {
    let (mut late, mut last) = (Vec::new(), Vec::new());
    for sleeps in observed {
        let sleeps = sleeps.lock().expect(PANICKED);
        let expired = sleeps.deadline.filter(|&deadline| deadline < end);
        let unfinished = expired.map(|deadline| (deadline, end));
        for (deadline, woken) in sleeps.woken.iter().copied().chain(unfinished) {
            let nanos = nanos_late(deadline, woken);
            late.push(nanos);
            if woken + LAST >= end {
                last.push(nanos);
            }
        }
    }
    (late.into_iter().collect(), last.into_iter().collect())
}

struct Stage {
    /// Never dropped, because very many tasks take long to drop. The process ends first.
    runtime: &'static Runtime,
    load: Load,
    start: Instant,
    done: Arc<AtomicBool>,
}

impl Stage {
    /// Creates a runtime and lets a peer start its threads and its drivers. Spawns the idle sleeps,
    /// and waits until all of them are registered.
    fn new<P: Peer>(load: Load) -> Self {
        let runtime: &Runtime = Box::leak(Box::new(runtime_for::<P>(load.workers)));
        if load.workers == 0 {
            // A current-thread runtime runs only within `block_on`. While this thread is there,
            // `block_on` on another thread polls its own future and nothing else.
            let (started, is_started) = std::sync::mpsc::channel();
            thread::spawn(move || {
                stay_on_core(0);
                runtime.block_on(async {
                    started.send(()).expect("the main thread has ended");
                    pending::<()>().await;
                });
            });
            is_started.recv().expect("the runtime has no thread");
        }
        let start = Instant::now() + load.lead();
        on_workers(runtime, load.threads(), |_| async {
            P::sleep(Duration::from_millis(20)).await;
        });
        let idle = load.lasting + IDLE_AFTER;
        spawn_polled(runtime, load.idle(), move |i| {
            let expiry = start + idle + IDLE_SPREAD.mul_f64(i as f64 / load.count as f64);
            P::sleep(expiry.saturating_duration_since(Instant::now()))
        });
        Self {
            runtime,
            load,
            start,
            done: Arc::default(),
        }
    }

    /// Spawns tasks that sleep again and again until `end`, and waits until all are registered.
    fn spawn_sleepers<P: Peer>(
        &self,
        tasks: u64,
        first: impl Fn(u64) -> Instant + Send + 'static,
        each: Duration,
        end: Instant,
    ) -> Vec<Observed> {
        let observed: Vec<_> = (0..tasks).map(|_| Observed::default()).collect();
        let sleeps = observed.clone();
        spawn_polled(self.runtime, tasks, move |i| {
            sleep_again::<P>(sleeps[i as usize].clone(), first(i), each, end)
        });
        observed
    }

    /// Starts the load. A task that is spawned later could wait long for its first poll.
    fn start_load<P: Peer>(&self) {
        thread::sleep(self.start.saturating_duration_since(Instant::now()));
        let Load { tasks, length, .. } = self.load;
        match self.load.scene {
            Scene::Service => self.repeat(1, || workload::rpc::<P>(REQUESTS)),
            Scene::Broadcast => {
                let broadcast: &'static Notify = Box::leak(Box::default());
                self.repeat(tasks, move || async move {
                    broadcast.notified().await;
                    work(length);
                });
                self.repeat(1, || async {
                    tokio::time::sleep(BROADCAST).await;
                    broadcast.notify_waiters();
                });
            }
            Scene::Blocked => self.repeat(tasks, move || async move {
                P::sleep(BLOCK).await;
                thread::sleep(length);
            }),
            _ => self.keep_ready(tasks, length),
        }
    }

    /// Spawns tasks that repeat a step until the sample ends.
    fn repeat<Fut>(&self, tasks: usize, step: impl Fn() -> Fut + Copy + Send + 'static)
    where
        Fut: Future<Output: Send> + Send,
    {
        for _ in 0..tasks {
            let done = self.done.clone();
            self.runtime.spawn(async move {
                while !done.load(Relaxed) {
                    step().await;
                }
            });
        }
    }

    /// Spawns tasks that are always ready, the same number on each worker.
    fn keep_ready(&self, tasks: usize, length: Duration) {
        let workers = self.load.threads();
        on_workers(self.runtime, workers, |worker| {
            let done = self.done.clone();
            async move {
                // A worker that always has a task does not steal.
                for _ in (worker..tasks).step_by(workers) {
                    let done = done.clone();
                    tokio::spawn(always_ready(length, move || done.load(Relaxed)));
                }
            }
        });
    }

    /// Waits while `goes_on` returns true, then ends the load.
    fn observe(self, observed: &[Observed], mut goes_on: impl FnMut() -> bool) -> (Late, Late) {
        while goes_on() {
            thread::sleep(Duration::from_millis(10));
        }
        let late = evaluate(observed, Instant::now());
        self.done.store(true, Relaxed);
        late
    }
}

impl Load {
    pub fn name(&self, figure: &str) -> String {
        let (workers, tasks, length) = (self.workers, self.tasks, self.length.as_micros());
        let ready = format!("{workers}, {tasks} x {length} us");
        let count = HumanCount(self.count);
        match self.scene {
            Scene::Sleeps => format!("{figure} sleep, {ready}, idle {count}"),
            Scene::Steady => format!("{figure} 30,000/s, {ready}, idle {count}"),
            Scene::Service => format!("{figure} sleep, {workers}, rpc, idle {count}"),
            Scene::Sustained => format!("{figure} sustained, {ready}, per second {count}"),
            Scene::Crowd => format!("{figure} crowd, {ready}, of {count}"),
            Scene::Broadcast => format!("{figure} broadcast, {ready}"),
            Scene::Blocked => format!("{figure} blocked, {ready}"),
        }
    }

    /// Returns the time between the start of a runtime and the start of the load. It suffices to
    /// register the idle timers on a slow machine, and puts the cascade where the sample wants it.
    pub fn lead(&self) -> Duration {
        let tasks = self.count as u32;
        let soonest = Duration::from_millis(200) + Duration::from_nanos(2_800) * tasks;
        if self.idle() == 0 {
            return soonest;
        }
        let cascade = self.lasting - BEFORE_END.min(self.lasting / 2);
        let cascades = (soonest + cascade).div_duration_f64(CASCADE).ceil();
        CASCADE.mul_f64(cascades) - cascade
    }

    fn idle(&self) -> u64 {
        match self.scene {
            Scene::Sustained | Scene::Crowd | Scene::Broadcast | Scene::Blocked => 0,
            _ => self.count,
        }
    }

    fn threads(&self) -> usize {
        self.workers.max(1)
    }
}

/// Sleeps again and again. Notes each deadline before the sleep, and its end after it.
async fn sleep_again<P: Peer>(
    sleeps: Observed,
    mut deadline: Instant,
    each: Duration,
    end: Instant,
) {
    while deadline < end {
        sleeps.lock().expect(PANICKED).deadline = Some(deadline);
        P::sleep(deadline.saturating_duration_since(Instant::now())).await;
        let woken = Instant::now();
        let mut sleeps = sleeps.lock().expect(PANICKED);
        sleeps.deadline = None;
        sleeps.woken.push((deadline, woken));
        deadline = woken + each;
    }
}

/// Works for `length` in each poll, and is ready again at once until `done` returns true.
pub async fn always_ready(length: Duration, done: impl Fn() -> bool) {
    poll_fn(|cx| {
        work(length);
        if done() {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn work(length: Duration) {
    let end = Instant::now() + length;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load {
        scene: Scene::Sleeps,
        workers: 1,
        tasks: 4,
        length: Duration::from_micros(10),
        count: 100,
        lasting: Duration::from_millis(300),
    };

    #[test]
    fn every_scene_observes_sleeps() {
        for &scene in Scene::value_variants() {
            for (peer, workers) in [(PeerKind::TokioWheel, 0), (PeerKind::Tokio, 2)] {
                let mut load = Load {
                    scene,
                    workers,
                    ..LOAD
                };
                if load.idle() > 0 {
                    // The test would wait seconds for the cascade of idle timers.
                    load.count = 0;
                }
                let figures = sample(peer, load);
                let has = |name| figures.iter().find(|figure| figure.0 == name);
                let value = |name| has(name).expect("each scene has it").1;
                assert!(value("count of") > 0.0, "{scene:?}");
                assert_eq!(value("early of"), 0.0, "{scene:?}");
                let is_probed = has("probe's worst").is_some();
                assert_eq!(is_probed, scene == Scene::Crowd, "{scene:?}");
            }
        }
    }

    #[test]
    fn a_cascade_comes_before_the_end() {
        for (millis, idle) in [(9_300, 1_000_000), (2_000, 1_000_000), (2_000, 1), (300, 9)] {
            let load = Load {
                count: idle,
                lasting: Duration::from_millis(millis),
                ..LOAD
            };
            let end = (load.lead() + load.lasting).as_secs_f64();
            let before_end = end % CASCADE.as_secs_f64();
            let expected = BEFORE_END.min(load.lasting / 2).as_secs_f64();
            assert!((before_end - expected).abs() < 1e-6, "{before_end} s");
            assert!(load.lead() < Duration::from_secs(8), "{load:?}");
        }
    }
}

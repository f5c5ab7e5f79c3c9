//! `saturated` measures how late timers fire on a runtime whose workers always have another task to
//! run.
//!
//! A task of the load wakes itself in each poll, so it goes back to its worker's queue at once. It
//! does not call `tokio::task::yield_now`, because tokio defers that waker until the worker has
//! polled the drivers. With such tasks, tokio would poll its timers after each round. That would
//! hide the lateness on a busy server.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Relaxed},
        },
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::{runtime::Runtime, sync::Notify, task::JoinHandle};
use tokio_wheel::DelayQueue;

use crate::{
    lab::{on_workers, runtime_for},
    late::{Late, late_by},
    peer::{Peer, PeerKind, Timeouts},
    queue::Queue,
    with_peer, workload,
};

/// How long the probe sleeps.
pub const PROBE: Duration = Duration::from_millis(10);

/// How long a sample lasts by default. Many of the idle timers cascade within that time.
pub const LASTING: Duration = Duration::from_millis(9_300);

/// How often a wheel with 64 slots per level moves the entries of a whole slot to lower levels:
/// every 4.1 s of a runtime's age. This crate and `tokio::time` have such wheels, as 1/64 ms times
/// 64³ equals 1 ms times 64².
const CASCADE: Duration = Duration::from_millis(4_096);

/// The time from the beginning of such a cascade to the end of the probe's last sleep. The cascade
/// moves an eighth of the idle timers.
const BEFORE_END: Duration = Duration::from_secs(1);

/// The time from the beginning of the probe's last sleep to the first expiry of an idle timer.
const IDLE_AFTER: Duration = Duration::from_millis(700);

/// The idle timers expire evenly over this time.
const IDLE_SPREAD: Duration = Duration::from_secs(20);

/// The number of tasks of [`Scene::Steady`], and how long each task sleeps. Together they sleep
/// 30,000 times a second.
const STEADY: (u64, Duration) = (3_000, Duration::from_millis(100));

/// The number of sleeping tasks of [`Scene::Service`], and how long each task sleeps.
const SERVED: (u64, Duration) = (2_000, PROBE);

/// The number of requests of [`Scene::Service`] between two reads of the clock.
const REQUESTS: u64 = 500_000;

/// What runs beside the load, and which timers are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scene {
    /// A probe sleeps 10 ms again and again. Beside it are idle sleeps, each in a task of its own.
    Sleeps,
    /// A task inserts a probe of 10 ms into a `DelayQueue` again and again, beside idle elements.
    Queue,
    /// 3,000 tasks sleep 100 ms again and again, so 30,000 sleeps fire each second.
    Steady,
    /// 2,000 tasks sleep 10 ms again and again. The load is the service of the workload `rpc`, at
    /// full speed.
    Service,
}

/// The parameters of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Load {
    /// The number of worker threads of the runtime.
    pub workers: usize,
    /// The number of tasks that are always ready. A service has clients and servers instead.
    pub tasks: usize,
    /// How long a poll of such a task takes.
    pub length: Duration,
    /// The number of timers that stay pending.
    pub idle: u64,
    /// How long the probe runs. A sample lasts [`lead`](Load::lead) longer.
    pub lasting: Duration,
}

/// The results of a sample.
pub struct Outcome {
    /// How late the probe woke, or the sleeping tasks.
    pub late: Late,
    /// The share of the workers' time that the load used. `None` for a service.
    pub load: Option<f64>,
}

/// A sample of one peer, which a fresh process takes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The scene to run.
    pub scene: Scene,
    /// The peer whose timers are measured. [`PeerKind::Tokio`] stands for tokio-util's queue.
    pub peer: PeerKind,
    /// The load beside the timers.
    pub load: Load,
}

impl Sample {
    /// Takes the sample. The process must not have done anything else before.
    ///
    /// # Panics
    ///
    /// Panics if the peer [cannot](Scene::can) take part.
    pub fn take(&self) -> Outcome {
        let load = self.load;
        match (self.scene, self.peer) {
            (Scene::Sleeps, peer) => with_peer!(peer, P => sleeps::<P>(load)),
            (Scene::Steady, peer) => with_peer!(peer, P => steady::<P>(load)),
            (Scene::Service, peer) => with_peer!(peer, P => service::<P>(load)),
            (Scene::Queue, PeerKind::TokioWheel) => queue::<DelayQueue<u32>>(load),
            (Scene::Queue, PeerKind::Tokio) => queue::<tokio_util::time::DelayQueue<u32>>(load),
            (Scene::Queue, peer) => panic!("{} has no queue", peer.name()),
        }
    }
}

impl Scene {
    /// Returns whether a peer can take part. Most peers have no queue.
    pub fn can(self, peer: PeerKind) -> bool {
        self != Self::Queue || matches!(peer, PeerKind::TokioWheel | PeerKind::Tokio)
    }

    /// Returns the name of a peer in the tables of this scene.
    pub fn name_of(self, peer: PeerKind) -> &'static str {
        match (self, peer) {
            (Self::Queue, PeerKind::Tokio) => <tokio_util::time::DelayQueue<u32> as Queue>::NAME,
            _ => peer.name(),
        }
    }
}

/// A queue that can wake its task.
pub trait Wakes: Queue + Send + 'static {
    /// Waits for the next element that expires.
    fn next(&mut self) -> impl Future<Output = u32> + Send;
}

macro_rules! wakes {
    ($($Queue:ty),+) => {
        $(impl Wakes for $Queue {
            async fn next(&mut self) -> u32 {
                let expired = poll_fn(|cx| self.poll_expired(cx)).await;
                expired.expect("the queue ran empty").into_inner()
            }
        })+
    };
}

wakes!(DelayQueue<u32>, tokio_util::time::DelayQueue<u32>);

/// The value of the probe among the idle elements.
const PROBED: u32 = u32::MAX;

/// A runtime, its pending timers, and the load after its start.
struct Stage {
    runtime: Runtime,
    load: Load,
    /// The instant at which the load starts.
    start: Instant,
    polls: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
}

impl Stage {
    fn new<P: Timeouts>(load: Load) -> Self {
        Self {
            runtime: runtime_for::<P>(load.workers),
            load,
            start: Instant::now() + load.lead(),
            polls: Arc::default(),
            done: Arc::default(),
        }
    }

    /// Lets a peer start its threads and its drivers.
    fn warm_up<P: Peer>(&self) {
        on_workers(&self.runtime, self.load.workers, |_| async {
            P::sleep(Duration::from_millis(20)).await;
        });
    }

    /// Spawns the idle sleeps, and waits until all of them are registered.
    fn register_idle<P: Peer>(&self) {
        let idle = self.load.idle;
        if idle == 0 {
            return;
        }
        let missing = Arc::new((AtomicU64::new(idle), Notify::new()));
        let (load, start) = (self.load, self.start);
        self.runtime.spawn({
            let missing = missing.clone();
            async move {
                for i in 0..idle {
                    let due = start + load.idle_offset(i);
                    tokio::spawn(sleep_until::<P>(due, missing.clone()));
                }
            }
        });
        self.runtime.block_on(missing.1.notified());
    }

    /// Starts the load on each worker. Spawn the other tasks first, because a late task could wait
    /// long for its first poll.
    fn start_load(&self) {
        thread::sleep(self.start.saturating_duration_since(Instant::now()));
        let Load {
            workers,
            tasks,
            length,
            ..
        } = self.load;
        on_workers(&self.runtime, workers, |worker| {
            let (polls, done) = (self.polls.clone(), self.done.clone());
            async move {
                // A worker that always has a task does not steal, so each worker keeps its own
                // tasks.
                for _ in (worker..tasks).step_by(workers) {
                    let (polls, done) = (polls.clone(), done.clone());
                    tokio::spawn(always_ready(length, move || {
                        polls.fetch_add(1, Relaxed);
                        done.load(Relaxed)
                    }));
                }
            }
        });
    }

    /// Waits for the observed tasks, then ends the load. A service then finishes its last requests.
    fn observe(
        self,
        observed: Vec<JoinHandle<Vec<i64>>>,
        service: Option<JoinHandle<()>>,
    ) -> Outcome {
        let (polls, began) = (self.polls.load(Relaxed), Instant::now());
        let late = self.runtime.block_on(join_all(observed));
        let worked = self.load.length * (self.polls.load(Relaxed) - polls) as u32;
        let time = began.elapsed() * self.load.workers as u32;
        self.done.store(true, Relaxed);
        if let Some(service) = service {
            (self.runtime.block_on(service)).expect("the service panicked");
        }
        // Very many tasks take long to drop, so the process ends first.
        self.runtime.shutdown_background();
        Outcome {
            late: (late.into_iter())
                .flat_map(|late| late.expect("a task panicked"))
                .collect(),
            load: Some(worked.as_secs_f64() / time.as_secs_f64()),
        }
    }

    /// Spawns tasks that sleep again and again after the start. They do not all begin together.
    fn spawn_sleepers<P: Peer>(&self, (tasks, each): (u64, Duration)) -> Vec<JoinHandle<Vec<i64>>> {
        let end = self.start + self.load.lasting;
        (0..tasks)
            .map(|i| {
                let begin = self.start + each.mul_f64(i as f64 / tasks as f64);
                self.runtime.spawn(sleep_again::<P>(begin, each, end))
            })
            .collect()
    }
}

impl Load {
    /// Returns the time between the start of a runtime and the start of the load. It is long enough
    /// to register the idle timers on a slow machine. The load then starts at the right time for a
    /// cascade.
    pub fn lead(&self) -> Duration {
        let soonest = Duration::from_millis(200) + Duration::from_nanos(2_800) * self.idle as u32;
        if self.idle == 0 {
            return soonest;
        }
        let cascade = self.lasting - BEFORE_END.min(self.lasting / 2);
        let cascades = (soonest + cascade).div_duration_f64(CASCADE).ceil();
        CASCADE.mul_f64(cascades) - cascade
    }

    /// Returns when the `i`th idle timer expires, counted from the start of the load.
    fn idle_offset(&self, i: u64) -> Duration {
        self.lasting + IDLE_AFTER + IDLE_SPREAD.mul_f64(i as f64 / self.idle as f64)
    }
}

fn sleeps<P: Peer>(load: Load) -> Outcome {
    let stage = Stage::new::<P>(load);
    stage.warm_up::<P>();
    stage.register_idle::<P>();
    let probe = stage.spawn_sleepers::<P>((1, PROBE));
    stage.start_load();
    stage.observe(probe, None)
}

fn steady<P: Peer>(load: Load) -> Outcome {
    let stage = Stage::new::<P>(load);
    stage.warm_up::<P>();
    stage.register_idle::<P>();
    let sleepers = stage.spawn_sleepers::<P>(STEADY);
    stage.start_load();
    stage.observe(sleepers, None)
}

fn service<P: Peer>(load: Load) -> Outcome {
    // Clients and servers are the load.
    let stage = Stage::new::<P>(Load { tasks: 0, ..load });
    stage.warm_up::<P>();
    stage.register_idle::<P>();
    let sleepers = stage.spawn_sleepers::<P>(SERVED);
    let done = stage.done.clone();
    thread::sleep(stage.start.saturating_duration_since(Instant::now()));
    let service = stage.runtime.spawn(async move {
        while !done.load(Relaxed) {
            workload::rpc::<P>(REQUESTS).await;
        }
    });
    Outcome {
        load: None,
        ..stage.observe(sleepers, Some(service))
    }
}

fn queue<Q: Wakes>(load: Load) -> Outcome {
    let stage = Stage::new::<crate::peer::Bare>(load);
    let (filled, start) = (Arc::new(Notify::new()), stage.start);
    let probe = stage.runtime.spawn({
        let filled = filled.clone();
        async move {
            let mut queue = Q::new();
            for i in 0..load.idle {
                let due = start + load.idle_offset(i);
                queue.insert(i as u32, due.saturating_duration_since(Instant::now()));
            }
            filled.notify_one();
            let mut late = Vec::new();
            while Instant::now() < start + load.lasting {
                let deadline = Instant::now() + PROBE;
                queue.insert(PROBED, PROBE);
                // If the probe is very late, idle elements may expire before it.
                while queue.next().await != PROBED {}
                if deadline >= start {
                    late.push(late_by(deadline));
                }
            }
            // Leaks the queue, because freeing its elements takes too long.
            std::mem::forget(queue);
            late
        }
    });
    stage.runtime.block_on(filled.notified());
    stage.start_load();
    stage.observe(vec![probe], None)
}

/// Sleeps until `due`, and reports when the sleep is registered.
async fn sleep_until<P: Peer>(due: Instant, missing: Arc<(AtomicU64, Notify)>) {
    let mut sleep = pin!(P::sleep(due.saturating_duration_since(Instant::now())));
    let mut polled = false;
    poll_fn(|cx| {
        let poll = sleep.as_mut().poll(cx);
        if !polled && missing.0.fetch_sub(1, AcqRel) == 1 {
            missing.1.notify_one();
        }
        polled = true;
        poll
    })
    .await;
}

/// Sleeps again and again between two instants. Returns how late each sleep was, in nanoseconds.
async fn sleep_again<P: Peer>(begin: Instant, each: Duration, end: Instant) -> Vec<i64> {
    P::sleep(begin.saturating_duration_since(Instant::now())).await;
    let mut late = Vec::new();
    loop {
        let now = Instant::now();
        if now >= end {
            return late;
        }
        P::sleep(each).await;
        late.push(late_by(now + each));
    }
}

/// Works for `length` in each poll, then asks `done`. If `done` returns false, the task is ready
/// again at once.
pub async fn always_ready(length: Duration, done: impl Fn() -> bool) {
    poll_fn(|cx| {
        let end = Instant::now() + length;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        if done() {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_observes_sleeps() {
        for &scene in Scene::value_variants() {
            for peer in [PeerKind::TokioWheel, PeerKind::Tokio] {
                let load = Load {
                    workers: 2,
                    tasks: 4,
                    length: Duration::from_micros(10),
                    // With idle timers, the test would wait seconds for their cascade.
                    idle: if scene == Scene::Queue { 100 } else { 0 },
                    lasting: Duration::from_millis(300),
                };
                let late = Sample { scene, peer, load }.take().late;
                assert!(late.count() > 0, "{scene:?} of {}", peer.name());
                assert_eq!(late.early(), 0, "{scene:?} of {}", peer.name());
            }
        }
    }

    #[test]
    fn a_cascade_comes_before_the_end() {
        for (millis, idle) in [(9_300, 1_000_000), (2_000, 1_000_000), (2_000, 1), (300, 9)] {
            let load = Load {
                workers: 1,
                tasks: 1,
                length: Duration::ZERO,
                idle,
                lasting: Duration::from_millis(millis),
            };
            let end = (load.lead() + load.lasting).as_secs_f64();
            let before_end = end % CASCADE.as_secs_f64();
            let expected = BEFORE_END.min(load.lasting / 2).as_secs_f64();
            assert!((before_end - expected).abs() < 1e-6, "{before_end} s");
            assert!(load.lead() < Duration::from_secs(8), "{load:?}");
        }
    }
}

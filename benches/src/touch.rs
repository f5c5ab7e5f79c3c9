//! Measures the cost of touching a random key among very many keys, which moves its deadline.
//! Compares this crate's idle set with the usual code of a server: a hash map into tokio-util's
//! `DelayQueue`.

use std::{
    collections::HashMap,
    hash::RandomState,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::{Duration, Instant},
};

use tokio::runtime::Runtime;
use tokio_util::time::{DelayQueue, delay_queue};
use tokio_wheel::idle::{IdleSet, Reaper};

use crate::{
    lab::{self, WORKERS},
    random::Random,
};

/// The numbers of keys.
pub const CROWDS: [u64; 2] = [100_000, 1_000_000];

/// No key expires during a measurement.
const TIMEOUT: Duration = Duration::from_secs(3_600);

/// A figure: a way to keep keys, their number, and the number of threads that touch them.
pub struct Case {
    /// What keeps the keys.
    pub peer: &'static str,
    /// How many threads touch the keys. Each thread chooses keys at random.
    pub threads: usize,
    run: Box<dyn Fn(u64) -> Duration>,
}

impl Case {
    /// Returns how long `touches` touches of each thread take, per thread.
    pub fn run(&self, touches: u64) -> Duration {
        (self.run)(touches)
    }

    /// Creates a case. `trackers` makes a tracker for each thread.
    fn new<T: Tracker>(peer: &'static str, crowd: u64, trackers: impl FnOnce() -> Vec<T>) -> Self {
        let runtime = lab::runtime(WORKERS);
        let trackers = {
            let _guard = runtime.enter();
            trackers()
        };
        let threads = trackers.len();
        let touchers = trackers.into_iter().enumerate().map(|(thread, tracker)| {
            Mutex::new(Toucher {
                tracker,
                random: Random::new(thread),
                crowd,
            })
        });
        let touchers: Arc<[_]> = touchers.collect();
        let run = Box::new(move |touches| mean_time(&runtime, &touchers, touches));
        Self { peer, threads, run }
    }
}

/// Returns all cases with `crowd` keys.
pub fn cases(crowd: u64) -> [Case; 5] {
    // All trackers use the same hasher, which is the default of each.
    let hasher = RandomState::new();
    [
        Case::new("tokio_wheel", crowd, || vec![Set::new(crowd, &hasher)]),
        Case::new("map, tokio_util", crowd, || {
            vec![Queue::new(crowd, &hasher)]
        }),
        Case::new("map, tokio_util, lock", crowd, || {
            vec![Arc::new(Mutex::new(Queue::new(crowd, &hasher)))]
        }),
        Case::new("tokio_wheel", crowd, || {
            vec![Set::new(crowd, &hasher); WORKERS]
        }),
        Case::new("map, tokio_util, lock", crowd, || {
            let shared = Arc::new(Mutex::new(Queue::new(crowd, &hasher)));
            vec![shared; WORKERS]
        }),
    ]
}

/// Returns the mean time of the threads, each on a worker of its own.
fn mean_time<T: Tracker>(
    runtime: &Runtime,
    touchers: &Arc<[Mutex<Toucher<T>>]>,
    touches: u64,
) -> Duration {
    let times = lab::on_workers(runtime, touchers.len(), |thread| {
        let touchers = touchers.clone();
        async move {
            let mut toucher = touchers[thread].lock().expect("no thread panics");
            toucher.touch(touches)
        }
    });
    times.iter().sum::<Duration>() / times.len() as u32
}

/// The state of a thread. It continues where it stopped. A second pass over the same keys in the
/// same order would touch the neighbors in each list next, which is faster.
struct Toucher<T> {
    tracker: T,
    random: Random,
    crowd: u64,
}

impl<T: Tracker> Toucher<T> {
    fn touch(&mut self, touches: u64) -> Duration {
        let start = Instant::now();
        for _ in 0..touches {
            self.tracker.touch(self.random.below(self.crowd));
        }
        start.elapsed()
    }
}

trait Tracker: Send + 'static {
    fn touch(&mut self, key: u64);
}

#[derive(Clone)]
struct Set {
    set: IdleSet<u64>,
    _reaper: Arc<Reaper<u64>>,
}

impl Set {
    fn new(crowd: u64, hasher: &RandomState) -> Self {
        let builder = IdleSet::builder(TIMEOUT).hasher(hasher.clone());
        let (set, mut reaper) = builder.build().expect("the defaults are in range");
        for key in 0..crowd {
            set.touch(&key);
        }
        let mut cx = Context::from_waker(Waker::noop());
        assert!(reaper.poll_reap(&mut cx).is_pending());
        let _reaper = Arc::new(reaper);
        Self { set, _reaper }
    }
}

impl Tracker for Set {
    fn touch(&mut self, key: u64) {
        self.set.touch(&key);
    }
}

struct Queue {
    keys: HashMap<u64, delay_queue::Key>,
    queue: DelayQueue<u64>,
}

impl Queue {
    fn new(crowd: u64, hasher: &RandomState) -> Self {
        let mut keys = HashMap::with_hasher(hasher.clone());
        let mut queue = DelayQueue::new();
        for key in 0..crowd {
            keys.insert(key, queue.insert(key, TIMEOUT));
        }
        let mut cx = Context::from_waker(Waker::noop());
        assert!(queue.poll_expired(&mut cx).is_pending());
        Self { keys, queue }
    }
}

impl Tracker for Queue {
    fn touch(&mut self, key: u64) {
        self.queue.reset(&self.keys[&key], TIMEOUT);
    }
}

/// The queue as the tasks of connections would share it.
impl Tracker for Arc<Mutex<Queue>> {
    fn touch(&mut self, key: u64) {
        self.lock().expect("no thread panics").touch(key);
    }
}

//! Measures the cost of touching a random key among very many keys, which moves its deadline.
//! Compares this crate's idle set with the usual code of a server: a hash map into tokio-util's
//! `DelayQueue`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::{Duration, Instant},
};

use fastrand::Rng;
use tokio::runtime::Runtime;
use tokio_util::time::{DelayQueue, delay_queue};
use tokio_wheel::idle::{IdleSet, Reaper};

use crate::lab::{self, WORKERS};

/// No key expires during a measurement.
const TIMEOUT: Duration = Duration::from_secs(3_600);

/// Fills a tracker with so many keys, and returns what touches random keys and measures that.
pub type Fill = Box<dyn Fn(u64) -> Box<dyn Fn(u64) -> Duration>>;

/// Returns the ways to keep keys that so many threads can touch.
pub fn cases(threads: usize) -> Vec<(&'static str, Fill)> {
    let mut cases = vec![
        case("tokio_wheel", move |keys| vec![Set::new(keys); threads]),
        case("map, tokio_util, lock", move |keys| {
            let shared = Arc::new(Mutex::new(Queue::new(keys)));
            vec![shared; threads]
        }),
    ];
    if threads == 1 {
        cases.push(case("map, tokio_util", |keys| vec![Queue::new(keys)]));
    }
    cases
}

fn case<T: Tracker>(
    peer: &'static str,
    trackers: impl Fn(u64) -> Vec<T> + 'static,
) -> (&'static str, Fill) {
    let fill = move |crowd| -> Box<dyn Fn(u64) -> Duration> {
        let runtime = lab::runtime(WORKERS);
        let entered = runtime.enter();
        let touchers = trackers(crowd)
            .into_iter()
            .enumerate()
            .map(|(thread, tracker)| {
                let random = Rng::with_seed(thread as u64);
                Mutex::new(Toucher {
                    tracker,
                    random,
                    crowd,
                })
            });
        let touchers: Arc<[_]> = touchers.collect();
        drop(entered);
        Box::new(move |touches| mean_time(&runtime, &touchers, touches))
    };
    (peer, Box::new(fill))
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
    random: Rng,
    crowd: u64,
}

impl<T: Tracker> Toucher<T> {
    fn touch(&mut self, touches: u64) -> Duration {
        let start = Instant::now();
        for _ in 0..touches {
            self.tracker.touch(self.random.u64(..self.crowd));
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
    fn new(crowd: u64) -> Self {
        let builder = IdleSet::builder(TIMEOUT);
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
    fn new(crowd: u64) -> Self {
        let mut keys = HashMap::new();
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

//! Measures the cost of touching a random key among very many keys, which moves its deadline.
//! Compares this crate's idle set with the usual code of a server: a hash map into tokio-util's
//! `DelayQueue`. A function that touches a key is an `FnMut(u64)`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::{Duration, Instant},
};

use fastrand::Rng;
use tokio::runtime::Runtime;
use tokio_util::time::DelayQueue;
use tokio_wheel_util::idle::IdleSet;

use crate::lab::{self, WORKERS};

/// No key expires during a measurement.
const TIMEOUT: Duration = Duration::from_secs(3_600);

pub struct Touchers<T> {
    // Dropped first, while the runtime of its timer still exists.
    threads: Arc<[Mutex<Toucher<T>>]>,
    keys: u64,
    runtime: Runtime,
}

/// The state of a thread. It continues where it stopped, because a second pass in the same order
/// would touch the neighbors in each list next, which is faster.
struct Toucher<T>(T, Rng);

impl<T: FnMut(u64) + Send + 'static> Touchers<T> {
    pub fn new(keys: u64, touchers: impl FnOnce() -> Vec<T>) -> Self {
        let runtime = lab::runtime(WORKERS);
        let entered = runtime.enter();
        let touchers = touchers().into_iter().zip(0..);
        let touchers = touchers.map(|(touch, seed)| Toucher(touch, Rng::with_seed(seed)));
        let threads = touchers.map(Mutex::new).collect();
        drop(entered);
        Self {
            threads,
            keys,
            runtime,
        }
    }

    pub fn touch(&mut self, touches: u64) -> Duration {
        let times = lab::on_workers(&self.runtime, self.threads.len(), |thread| {
            let (threads, keys) = (self.threads.clone(), self.keys);
            async move {
                let mut thread = threads[thread].lock().expect("no thread panics");
                let Toucher(touch, random) = &mut *thread;
                let start = Instant::now();
                for _ in 0..touches {
                    touch(random.u64(..keys));
                }
                start.elapsed()
            }
        });
        times.iter().sum::<Duration>() / times.len() as u32
    }
}

pub fn set(keys: u64) -> impl FnMut(u64) + Clone + Send + 'static {
    let (set, mut reaper) = IdleSet::new(TIMEOUT);
    for key in 0..keys {
        set.touch(&key);
    }
    let mut cx = Context::from_waker(Waker::noop());
    assert!(reaper.poll_reap(&mut cx).is_pending());
    let reaper = Arc::new(reaper);
    move |key| {
        // Without its reaper, the set would end.
        let _ = &reaper;
        set.touch(&key);
    }
}

pub fn map(keys: u64) -> impl FnMut(u64) + Send + 'static {
    let mut queue = DelayQueue::new();
    let map: HashMap<_, _> = (0..keys)
        .map(|key| (key, queue.insert(key, TIMEOUT)))
        .collect();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(queue.poll_expired(&mut cx).is_pending());
    move |key| queue.reset(&map[&key], TIMEOUT)
}

/// Returns what touches the keys of a map that the tasks of connections share.
pub fn locked_map(keys: u64) -> impl FnMut(u64) + Clone + Send + 'static {
    let shared = Arc::new(Mutex::new(map(keys)));
    move |key| shared.lock().expect("no thread panics")(key)
}

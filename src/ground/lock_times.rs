//! Measures how long each lock of the crate is held. Only builds with `--cfg tokio_wheel_lock_times` contain
//! this module.
//!
//! The soak test `.ci/soak` checks that no lock is held for too long. The system may suspend a thread while
//! it holds a lock. So the wall-clock time of a hold would depend on the machine more than on the crate. For
//! this reason, the test limits the CPU time that the thread uses while it holds the lock.
//!
//! Each hold costs two system calls. The thread makes the first call after it takes the lock, and the second
//! call before it releases the lock. About half the time of each call is included in the measured time.
//!
//! The module keeps one result for each place in the source that takes a lock. The results are in a table to
//! which all threads write without a lock.

use std::{
    ops::{Deref, DerefMut},
    panic::Location,
    ptr,
    sync::{
        MutexGuard as Inner, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The CPU time that a hold should not exceed.
pub const BOUND: Duration = Duration::from_micros(50);

/// The size of the table. It is larger than the number of places that take a lock.
///
/// A place in generic code needs one entry for each type for which it is compiled.
const SITES: usize = 256;

/// The number of buckets. The holds of bucket `n` took less than 2<sup>`n`</sup> nanoseconds.
///
/// The last bucket also contains all longer holds.
const BUCKETS: usize = 40;

/// The function that reads the CPU time of the calling thread. The measuring program passes it to
/// [`measure`]. So this crate needs no dependency that reads the CPU time.
static CPU_CLOCK: OnceLock<fn() -> Duration> = OnceLock::new();

/// Sets the clock for all later measurements. The clock must return the CPU time of the calling thread.
pub fn measure(cpu_clock: fn() -> Duration) {
    CPU_CLOCK.get_or_init(|| cpu_clock);
}

static TABLE: [Site; SITES] = [const { Site::new() }; SITES];

/// The holds of one place in the source. All threads write to it without a lock.
struct Site {
    taker: OnceLock<&'static Location<'static>>,
    cpu: [AtomicU64; BUCKETS],
    total: AtomicU64,
    over: AtomicU64,
    worst_cpu: AtomicU64,
    worst_wall: AtomicU64,
}

impl Site {
    const fn new() -> Self {
        Self {
            taker: OnceLock::new(),
            cpu: [const { AtomicU64::new(0) }; BUCKETS],
            total: AtomicU64::new(0),
            over: AtomicU64::new(0),
            worst_cpu: AtomicU64::new(0),
            worst_wall: AtomicU64::new(0),
        }
    }

    /// Returns the entry of a place. If the table is full, the remaining places share the last entry.
    fn of(taker: &'static Location<'static>) -> &'static Self {
        let start = ptr::from_ref(taker).addr() / align_of::<Location<'_>>() % SITES;
        let mut probes = (start..SITES).chain(0..start).map(|n| &TABLE[n]);
        let mine = probes.find(|site| ptr::eq(*site.taker.get_or_init(|| taker), taker));
        mine.unwrap_or(&TABLE[SITES - 1])
    }

    fn record(&self, cpu: u64, wall: u64) {
        let bucket = (u64::BITS - cpu.leading_zeros()) as usize;
        self.cpu[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(cpu, Ordering::Relaxed);
        if u128::from(cpu) > BOUND.as_nanos() {
            self.over.fetch_add(1, Ordering::Relaxed);
        }
        // Almost no hold is a new maximum, so usually a load is enough. A load does not take the cache line
        // away from the other processors.
        for (worst, new) in [(&self.worst_cpu, cpu), (&self.worst_wall, wall)] {
            if worst.load(Ordering::Relaxed) < new {
                worst.fetch_max(new, Ordering::Relaxed);
            }
        }
    }
}

/// A guard that records how long the lock was held.
pub(crate) struct MutexGuard<'a, T> {
    /// The guard of the lock. It is `None` only while this guard is being dropped.
    inner: Option<Inner<'a, T>>,
    taker: &'static Location<'static>,
    since: Moment,
}

impl<'a, T> MutexGuard<'a, T> {
    #[track_caller]
    pub(crate) fn new(inner: Inner<'a, T>) -> Self {
        Self {
            inner: Some(inner),
            taker: Location::caller(),
            since: Moment::now(),
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner
            .as_ref()
            .expect("the lock is held until the guard is dropped")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner
            .as_mut()
            .expect("the lock is held until the guard is dropped")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        let until = Moment::now();
        self.inner = None;
        let wall = until.wall - self.since.wall;
        let cpu = until.cpu.saturating_sub(self.since.cpu);
        Site::of(self.taker).record(cpu, wall.as_nanos() as u64);
    }
}

/// A reading of the wall clock and of the CPU clock.
struct Moment {
    wall: Instant,
    /// The CPU time of the calling thread in nanoseconds.
    cpu: u64,
}

impl Moment {
    fn now() -> Self {
        let wall = Instant::now();
        let cpu = CPU_CLOCK
            .get()
            .map_or(Duration::ZERO, |cpu_clock| cpu_clock());
        Self {
            wall,
            cpu: cpu.as_nanos() as u64,
        }
    }
}

/// The measurements of one place in the crate's source since the process started.
#[derive(Clone, Debug)]
pub struct Holds {
    /// The file and line that took the lock.
    pub taker: String,
    /// A histogram of the CPU times of the holds. Bucket `n` counts the holds from 2<sup>`n - 1`</sup> ns to
    /// less than 2<sup>`n`</sup> ns.
    pub buckets: Vec<u64>,
    /// The sum of the CPU times of all holds.
    pub total: Duration,
    /// The number of holds that took more CPU time than the [`BOUND`].
    pub over: u64,
    /// The most CPU time that a thread used during one hold.
    pub worst_cpu: Duration,
    /// The wall-clock time of the longest hold. It includes the time during which the thread did not run.
    pub worst_wall: Duration,
}

impl Holds {
    /// Returns the number of holds.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Returns all measurements so far, one result for each place. If a place was compiled for several types, its
/// result is the sum over these types.
pub fn holds() -> Vec<Holds> {
    let mut all: Vec<Holds> = Vec::new();
    for site in &TABLE {
        let Some(taker) = site.taker.get() else {
            continue;
        };
        let taker = format!("{}:{}", taker.file(), taker.line());
        let buckets: Vec<u64> = (site.cpu.iter())
            .map(|n| n.load(Ordering::Relaxed))
            .collect();
        let total = Duration::from_nanos(site.total.load(Ordering::Relaxed));
        let over = site.over.load(Ordering::Relaxed);
        let worst_cpu = Duration::from_nanos(site.worst_cpu.load(Ordering::Relaxed));
        let worst_wall = Duration::from_nanos(site.worst_wall.load(Ordering::Relaxed));
        match all.iter_mut().find(|holds| holds.taker == taker) {
            Some(holds) => {
                let sums = holds.buckets.iter_mut().zip(buckets);
                sums.for_each(|(sum, n)| *sum += n);
                holds.total += total;
                holds.over += over;
                holds.worst_cpu = holds.worst_cpu.max(worst_cpu);
                holds.worst_wall = holds.worst_wall.max(worst_wall);
            }
            None => all.push(Holds {
                taker,
                buckets,
                total,
                over,
                worst_cpu,
                worst_wall,
            }),
        }
    }
    all
}

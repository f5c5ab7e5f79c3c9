//! How long each lock of the crate was held, and who held it: with `--cfg tokio_wheel_lock_times` alone.
//!
//! The soak asks whether any lock is held longer than it may be (`.ci/soak`). A thread that holds a
//! lock may be kept from running, so time as such says more about the machine than about the crate.
//! The bound is on what the thread does meanwhile: each hold is measured in CPU time of the thread
//! as well. That is a system call when the lock is taken and one when it is released, and their
//! halves count as held.
//!
//! What is measured is kept by the place in the source that took the lock, in a table that threads
//! share and write to without a lock.

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

/// More than there are places that take a lock, each as often as it is compiled for another type.
const SITES: usize = 256;

/// The holds of the `n`th bucket took less than 2<sup>`n`</sup> nanoseconds, the last any time.
const BUCKETS: usize = 40;

/// Reads the CPU time of the calling thread. Who measures brings it, so that the crate needs no package
/// for that.
static CPU_CLOCK: OnceLock<fn() -> Duration> = OnceLock::new();

/// Measures by that clock from now on: the CPU time of the calling thread.
pub fn measure(cpu_clock: fn() -> Duration) {
    CPU_CLOCK.get_or_init(|| cpu_clock);
}

static TABLE: [Site; SITES] = [const { Site::new() }; SITES];

/// The holds that began at one place.
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

    /// The entry of that place. If the table is full, the last one is anybody's.
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
        // Reading does not move the cache line, and nearly no hold is the worst.
        for (worst, new) in [(&self.worst_cpu, cpu), (&self.worst_wall, wall)] {
            if worst.load(Ordering::Relaxed) < new {
                worst.fetch_max(new, Ordering::Relaxed);
            }
        }
    }
}

/// A guard that notes how long it lived.
pub(crate) struct MutexGuard<'a, T> {
    /// Until it is dropped.
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
        self.inner.as_ref().expect("it is held until it is dropped")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is held until it is dropped")
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

/// A reading of both clocks.
struct Moment {
    wall: Instant,
    /// Of the calling thread, in nanoseconds.
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

/// The holds that one place in the crate's source began, since the process started.
#[derive(Clone, Debug)]
pub struct Holds {
    /// The file and line that took the lock.
    pub taker: String,
    /// By CPU time: the `n`th bucket has those of less than 2<sup>`n`</sup> nanoseconds that the
    /// one before it has not.
    pub buckets: Vec<u64>,
    /// The CPU time of all together.
    pub total: Duration,
    /// Those that took more CPU time than the [`BOUND`].
    pub over: u64,
    /// The most CPU time that the thread used meanwhile.
    pub worst_cpu: Duration,
    /// The longest, with the time that the thread was kept from running.
    pub worst_wall: Duration,
}

impl Holds {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What was measured so far, by place. Those that were compiled more than once are added up.
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

//! Records what happened to every timer. A timer has a line here from its creation until it is
//! settled.
//!
//! | Settled as | When                                                          |
//! |------------|---------------------------------------------------------------|
//! | fired      | its future was ready; checked not to be early                 |
//! | ended      | it was dropped, and its timer or runtime was shutting down    |
//! | canceled   | it was dropped while its timer was running                    |
//!
//! A line that is not settled is pending. The watchdog searches the pending lines for lost timers,
//! which should have fired long before. At the end of an epoch, only the far timers may be pending.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use hdrhistogram::Histogram;
use tokio_wheel::{Duration, Instant};

use crate::{faults, target::Target};

/// A timer is lost if it has not fired this long after its deadline. A busy machine takes far less.
const PATIENCE: Duration = Duration::from_secs(10);

/// The highest lateness that the histograms tell apart, in nanoseconds.
pub const LATEST: u64 = 100_000_000_000;

/// The number of shelves. With several shelves, threads rarely wait for each other in the ledger.
const SHELVES: usize = 16;

static SHELVES_OF_LINES: LazyLock<[Mutex<Shelf>; SHELVES]> =
    LazyLock::new(|| std::array::from_fn(|_| Mutex::new(Shelf::new())));

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The class under which the report lists the lateness of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Ambient,
    Built,
    HighResolution,
    Limited,
    Scheduled,
    Queue,
    Idle,
    Storm,
}

impl Class {
    pub const ALL: [Self; 8] = [
        Self::Ambient,
        Self::Built,
        Self::HighResolution,
        Self::Limited,
        Self::Scheduled,
        Self::Queue,
        Self::Idle,
        Self::Storm,
    ];
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ambient => "default",
            Self::Built => "built",
            Self::HighResolution => "high resolution",
            Self::Limited => "with a limit",
            Self::Scheduled => "scheduled tasks",
            Self::Queue => "DelayQueue",
            Self::Idle => "IdleSet",
            Self::Storm => "storms",
        })
    }
}

/// Counts of lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    pub made: u64,
    pub fired: u64,
    pub cancelled: u64,
    pub ended: u64,
    /// The number of pending lines, counted line by line. It is not computed from the other counts.
    pub pending: u64,
}

struct Shelf {
    pending: HashMap<u64, Pending>,
    sums: Sums,
    /// How late the timers of each class were, in nanoseconds, on runtimes whose tasks neither block
    /// workers nor keep them busy.
    late: Vec<Histogram<u64>>,
}

struct Pending {
    target: Arc<Target>,
    class: Class,
    deadline: Instant,
    /// Whether the task that awaits the timer is woken when it fires.
    is_awaited: bool,
    is_lost: bool,
}

impl Shelf {
    fn new() -> Self {
        // Allocates all memory at once, because later growth would look like a leak.
        let histogram = |_| Histogram::new_with_bounds(1, LATEST, 2).expect("the bounds are sound");
        Self {
            pending: HashMap::new(),
            sums: Sums::default(),
            late: Class::ALL.map(histogram).into(),
        }
    }
}

fn shelf(number: u64) -> MutexGuard<'static, Shelf> {
    let shelf = &SHELVES_OF_LINES[number as usize % SHELVES];
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shelves() -> impl Iterator<Item = MutexGuard<'static, Shelf>> {
    (0..SHELVES as u64).map(shelf)
}

/// The line of one timer.
pub struct Line {
    number: u64,
    is_open: bool,
}

impl Line {
    /// Opens a line for a timer that must not fire before `deadline`.
    pub fn open(target: &Arc<Target>, class: Class, deadline: Instant) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let pending = Pending {
            target: target.clone(),
            class,
            deadline,
            is_awaited: true,
            is_lost: false,
        };
        let mut shelf = shelf(number);
        shelf.sums.made += 1;
        shelf.pending.insert(number, pending);
        Self {
            number,
            is_open: true,
        }
    }

    /// Gives the timer another deadline.
    pub fn move_to(&mut self, deadline: Instant) {
        self.change(|pending| pending.deadline = deadline);
    }

    /// Marks a timer that will wake no task, so its lateness means nothing.
    pub fn is_not_awaited(&mut self) {
        self.change(|pending| pending.is_awaited = false);
    }

    /// Moves the timer to another target.
    pub fn move_over(&mut self, target: &Arc<Target>) {
        self.change(|pending| {
            pending.class = target.class;
            pending.target = target.clone();
        });
    }

    fn change(&mut self, change: impl FnOnce(&mut Pending)) {
        let mut shelf = shelf(self.number);
        change(shelf.pending.get_mut(&self.number).expect("it is open"));
    }

    /// Settles the line: the timer has fired now.
    pub fn fired(mut self) {
        let now = Instant::now();
        self.is_open = false;
        let mut shelf = shelf(self.number);
        shelf.sums.fired += 1;
        let pending = shelf.pending.remove(&self.number).expect("it is open");
        let env = &pending.target.env;
        let is_disturbed = env.blocks || env.is_saturated.load(Ordering::SeqCst);
        if pending.is_awaited && !pending.target.has_ended() && !is_disturbed {
            let late = now.saturating_duration_since(pending.deadline);
            shelf.late[pending.class as usize].saturating_record(late.as_nanos() as u64);
        }
        drop(shelf);
        if now < pending.deadline {
            let early = pending.deadline - now;
            faults::found(format!("early by {early:?}: {pending}"));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let mut shelf = shelf(self.number);
        let pending = shelf.pending.remove(&self.number).expect("it is open");
        if pending.target.has_ended() {
            shelf.sums.ended += 1;
        } else {
            shelf.sums.cancelled += 1;
        }
        drop(shelf);
        pending.look(Instant::now());
    }
}

impl Pending {
    /// Checks whether the timer should have fired by `now` and is lost.
    fn look(&self, now: Instant) -> bool {
        let late = now.saturating_duration_since(self.deadline);
        let is_lost = late > PATIENCE && !self.target.has_ended();
        if is_lost && !self.is_lost {
            faults::found(format!("lost, and {late:?} overdue: {self}"));
        }
        is_lost
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.class, self.target)
    }
}

/// Searches for lost timers.
pub fn watch() {
    for mut shelf in shelves() {
        let now = Instant::now();
        for pending in shelf.pending.values_mut() {
            pending.is_lost |= pending.look(now);
        }
    }
}

/// Returns the counts of all lines.
pub fn sums() -> Sums {
    shelves().fold(Sums::default(), |sum, shelf| Sums {
        made: sum.made + shelf.sums.made,
        fired: sum.fired + shelf.sums.fired,
        cancelled: sum.cancelled + shelf.sums.cancelled,
        ended: sum.ended + shelf.sums.ended,
        pending: sum.pending + shelf.pending.len() as u64,
    })
}

/// Describes some timers that are pending but should not be.
pub fn some_pending(except: &Target) -> Vec<String> {
    let describe = |pending: &Pending| {
        let left = pending.deadline.saturating_duration_since(Instant::now());
        format!("pending, with {left:?} left: {pending}")
    };
    let of_shelf = |shelf: MutexGuard<'_, Shelf>| {
        let others = shelf.pending.values();
        let others = others.filter(|pending| !std::ptr::eq(&*pending.target, except));
        others.take(2).map(describe).collect::<Vec<_>>()
    };
    shelves().flat_map(of_shelf).take(5).collect()
}

/// Frees the memory of settled lines.
pub fn shrink() {
    shelves().for_each(|mut shelf| shelf.pending.shrink_to_fit());
}

/// Returns how late the timers were, by class.
pub fn lateness() -> impl Iterator<Item = (Class, Histogram<u64>)> {
    Class::ALL.into_iter().map(|class| {
        let mut shelves = shelves().map(|shelf| shelf.late[class as usize].clone());
        let mut sum = shelves.next().expect("there are some");
        shelves.for_each(|late| sum += late);
        (class, sum)
    })
}

//! What became of every timer: each has a line here, from when it is made until it is settled.
//!
//! | Settled as | When                                                          |
//! |------------|---------------------------------------------------------------|
//! | fired      | its future was ready; checked not to be early                 |
//! | ended      | it was dropped, and its timer or runtime was shutting down    |
//! | cancelled  | it was dropped, and its timer lives                           |
//!
//! A line that is not settled is pending. The watchdog looks through these for timers that should
//! have fired long since: those are lost. At the end of an epoch there must be none but the far ones.

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

/// How long after its deadline a timer is lost that has not fired. Far more than a busy machine takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Later than any lateness that is told apart, in nanoseconds.
const LATEST: u64 = 100_000_000_000;

/// So that threads seldom wait for each other here rather than in the crate.
const SHELVES: usize = 16;

static SHELVES_OF_LINES: LazyLock<[Mutex<Shelf>; SHELVES]> =
    LazyLock::new(|| std::array::from_fn(|_| Mutex::new(Shelf::new())));

static NEXT: AtomicU64 = AtomicU64::new(0);

/// What the lateness of a timer is listed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Ambient,
    Built,
    Coarse,
    HighResolution,
    Limited,
    Scheduled,
    Queue,
    Idle,
    Storm,
}

impl Class {
    pub const ALL: [Self; 9] = [
        Self::Ambient,
        Self::Built,
        Self::Coarse,
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
            Self::Ambient => "ambient",
            Self::Built => "built",
            Self::Coarse => "coarse",
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
    /// As the lines themselves are there, not as the difference of the others.
    pub pending: u64,
}

/// How late the timers of a class were.
pub struct Lateness {
    pub class: Class,
    /// In nanoseconds.
    pub undisturbed: Histogram<u64>,
    /// The same on runtimes whose tasks block workers on purpose.
    pub disturbed: Histogram<u64>,
    /// The same on runtimes whose workers tasks that are always ready keep busy.
    pub saturated: Histogram<u64>,
}

struct Shelf {
    pending: HashMap<u64, Pending>,
    sums: Sums,
    late: Vec<Lateness>,
}

struct Pending {
    target: Arc<Target>,
    class: Class,
    deadline: Instant,
    /// Whether whoever waits for it is woken when it fires.
    is_awaited: bool,
    is_lost: bool,
}

impl Shelf {
    fn new() -> Self {
        // All of its memory at once: it must not look like a leak.
        let histogram = || Histogram::new_with_bounds(1, LATEST, 2).expect("the bounds are sound");
        let late = Class::ALL.map(|class| Lateness {
            class,
            undisturbed: histogram(),
            disturbed: histogram(),
            saturated: histogram(),
        });
        Self {
            pending: HashMap::new(),
            sums: Sums::default(),
            late: late.into(),
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
    /// For a timer that must not fire before `deadline`.
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

    /// Says that nobody will be woken by the timer, so its lateness means nothing.
    pub fn is_not_awaited(&mut self) {
        self.change(|pending| pending.is_awaited = false);
    }

    /// Has the timer belong to another target.
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

    /// The timer has fired: now.
    pub fn fired(mut self) {
        let now = Instant::now();
        self.is_open = false;
        let mut shelf = shelf(self.number);
        shelf.sums.fired += 1;
        let pending = shelf.pending.remove(&self.number).expect("it is open");
        if pending.is_awaited && !pending.target.has_ended() {
            let late = now.saturating_duration_since(pending.deadline);
            let lateness = &mut shelf.late[pending.class as usize];
            let env = &pending.target.env;
            let histogram = match env.is_saturated.load(Ordering::SeqCst) {
                true => &mut lateness.saturated,
                false if env.blocks => &mut lateness.disturbed,
                false => &mut lateness.undisturbed,
            };
            histogram.saturating_record(late.as_nanos() as u64);
        }
        drop(shelf);
        if now < pending.deadline {
            let early = pending.deadline - now;
            if pending.target.is_coarse() {
                faults::coarse_early(early);
            } else {
                faults::found(format!("early by {early:?}: {pending}"));
            }
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
    /// Says whether the timer is lost, which should have fired by `now`.
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

/// Looks for timers that are lost.
pub fn watch() {
    for mut shelf in shelves() {
        let now = Instant::now();
        for pending in shelf.pending.values_mut() {
            pending.is_lost |= pending.look(now);
        }
    }
}

/// The counts of all lines.
pub fn sums() -> Sums {
    shelves().fold(Sums::default(), |sum, shelf| Sums {
        made: sum.made + shelf.sums.made,
        fired: sum.fired + shelf.sums.fired,
        cancelled: sum.cancelled + shelf.sums.cancelled,
        ended: sum.ended + shelf.sums.ended,
        pending: sum.pending + shelf.pending.len() as u64,
    })
}

/// Descriptions of some timers that are pending though they should not be.
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

/// Gives back the memory of lines that are settled.
pub fn shrink() {
    shelves().for_each(|mut shelf| shelf.pending.shrink_to_fit());
}

/// How late the timers were, by class.
pub fn lateness() -> Vec<Lateness> {
    let mut shelves = SHELVES_OF_LINES.iter().map(|shelf| {
        let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut shelf.late)
    });
    let mut sum = shelves.next().expect("there are some");
    for late in shelves {
        for (sum, late) in sum.iter_mut().zip(late) {
            sum.undisturbed += late.undisturbed;
            sum.disturbed += late.disturbed;
            sum.saturated += late.saturated;
        }
    }
    sum
}

//! Checks how long the crate held its locks, if the build measures that. It subtracts what the
//! machine itself adds.
//!
//! The CPU time of a thread includes interrupts. On a virtual machine, it also includes time that
//! the host took. So a control measures spans of CPU time that should all be equal. Any excess of a
//! span comes from the machine and not from the crate.
//!
//! So a single hold may exceed the bound. It is a fault in each of these cases:
//!
//! * Holds exceed the bound more often than the control's spans, in proportion to their CPU time.
//! * One in a thousand of the holds that began at one place exceeds the bound.
//! * Holds of one place exceed the bound by far again and again.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use tokio_wheel::Duration;

use crate::faults;

/// A hold of this many nanoseconds or more is far over the bound. A host that takes the processor
/// away for a while causes such a hold from time to time.
#[cfg(tokio_wheel_lock_times)]
const FAR: u64 = 1 << 20;

/// How many holds of one place may be far over the bound. The number grows by as many for each
/// second of CPU time that these holds took together.
const FAR_HOLDS: f64 = 3.0;

/// How many holds may exceed the bound in a second of CPU time under locks. Three times the number
/// of the control's spans over the bound in a second is added.
const OFTEN: f64 = 50.0;

/// The number of holds of a place that is enough to judge one in a thousand of them. That hold may
/// take no longer than the bound, rounded up to the next power of two.
const ENOUGH: u64 = 3_000;

/// About how long a span of the control takes without disturbance: a fifth of the bound.
const SPAN: Duration = Duration::from_micros(10);

/// The pause between two spans, so that the control uses little of the machine.
const PAUSE: Duration = Duration::from_micros(100);

/// The CPU time of spans of equal work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    pub spans: u64,
    pub total: Duration,
    /// The number of spans that took more than the bound for a lock.
    pub over: u64,
    pub worst: Duration,
}

impl Control {
    /// Measures spans until `stop` returns true.
    pub fn run(stop: impl Fn() -> bool) -> Self {
        let mut control = Self::default();
        let steps = calibrate();
        while !stop() {
            let before = cpu_time();
            work(steps);
            let took = cpu_time() - before;
            control.spans += 1;
            control.total += took;
            control.over += u64::from(took > BOUND);
            control.worst = control.worst.max(took);
            std::thread::sleep(PAUSE);
        }
        control
    }
}

/// Returns how many steps of work take as long as a span.
fn calibrate() -> u64 {
    const STEPS: u64 = 10_000;
    let times = (0..100).map(|_| {
        let before = cpu_time();
        work(STEPS);
        cpu_time() - before
    });
    let least = times.min().expect("there are some");
    SPAN.as_nanos() as u64 * STEPS / least.as_nanos().max(1) as u64
}

fn work(steps: u64) {
    for n in 0..steps {
        black_box(n);
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(tokio_wheel_lock_times)]
pub use tokio_wheel::lock_times::BOUND;

/// Makes the crate measure its locks from now on, if the build can.
pub fn measure() {
    #[cfg(tokio_wheel_lock_times)]
    tokio_wheel::lock_times::measure(cpu_time);
}

/// The value of `tokio_wheel::lock_times::BOUND`, which this build does not have.
#[cfg(not(tokio_wheel_lock_times))]
pub const BOUND: Duration = Duration::from_micros(50);

/// The holds that began at one place.
pub struct Site {
    pub taker: String,
    pub count: u64,
    /// The CPU time of all holds together.
    pub total: Duration,
    pub over: u64,
    /// The number of holds that took a millisecond or more.
    pub far: u64,
    /// A CPU time that all but one in a thousand holds stay below, up to a factor of two.
    pub p999: Duration,
    pub worst_cpu: Duration,
    pub worst_wall: Duration,
}

/// Returns the holds by place, the worst place first. Without measured locks, returns none.
#[cfg(tokio_wheel_lock_times)]
pub fn sites() -> Option<Vec<Site>> {
    let holds = tokio_wheel::lock_times::holds().into_iter();
    let mut sites: Vec<_> = holds
        .map(|holds| Site {
            count: holds.count(),
            total: holds.total,
            over: holds.over,
            far: holds.buckets[FAR.ilog2() as usize + 1..].iter().sum(),
            p999: below(&holds.buckets, 0.999),
            worst_cpu: holds.worst_cpu,
            worst_wall: holds.worst_wall,
            taker: holds.taker,
        })
        .collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.worst_cpu));
    Some(sites)
}

#[cfg(not(tokio_wheel_lock_times))]
pub fn sites() -> Option<Vec<Site>> {
    None
}

/// Checks whether locks were held for too long for reasons other than the machine.
pub fn look(sites: &[Site], control: &Control) {
    for site in sites {
        let Site {
            taker,
            count,
            far,
            total,
            p999,
            ..
        } = site;
        if *count >= ENOUGH && *p999 > BOUND.mul_f64(1.5) {
            faults::found(format!(
                "of {count} holds of the lock taken at {taker}, one in a thousand takes up to {p999:?} of CPU time"
            ));
        }
        if *far as f64 > FAR_HOLDS * (1.0 + total.as_secs_f64()) {
            faults::found(format!(
                "the lock taken at {taker} was held for more than 1 ms of CPU time, {far} times"
            ));
        }
    }
    let rate = |over: u64, total: Duration| over as f64 / total.as_secs_f64().max(0.001);
    let over = sites.iter().map(|site| site.over).sum();
    let held = rate(over, sites.iter().map(|site| site.total).sum());
    let by_itself = rate(control.over, control.total);
    if held > 3.0 * by_itself + OFTEN {
        faults::found(format!(
            "{held:.0} holds over {BOUND:?} in a second of CPU time; the machine by itself has {by_itself:.0}"
        ));
    }
}

#[cfg(tokio_wheel_lock_times)]
fn below(buckets: &[u64], part: f64) -> Duration {
    let all: u64 = buckets.iter().sum();
    let mut counted = 0;
    let bucket = buckets.iter().position(|count| {
        counted += count;
        counted as f64 >= all as f64 * part
    });
    Duration::from_nanos(1 << bucket.unwrap_or(0))
}

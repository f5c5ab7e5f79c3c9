//! Runs operations on a `DelayQueue` under a paused clock, beside a map of deadlines.
//!
//! Times are in nanoseconds since the creation of the queue and its timer. The queue rounds
//! deadlines up to a tick. An element may expire from its deadline on, and must expire at that
//! tick.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use arbitrary::Arbitrary;
use tokio::{
    runtime,
    task::{unconstrained, yield_now},
};
use tokio_wheel::{Instant, Timer};
use tokio_wheel_util::delay_queue::{DelayQueue, Expired, Key};

/// The most operations that a program runs. More operations would only slow an input down.
const MOST: usize = 300;

const MILLI: u64 = 1_000_000;

/// The tick of the default timer, in nanoseconds.
const FINE_TICK: u64 = MILLI / 64;

#[derive(Arbitrary, Debug)]
pub struct Program {
    /// Whether the queue uses the tick of the default timer. Otherwise its tick is a millisecond.
    fine: bool,
    ops: Vec<Op>,
}

/// An operation. Numbers of elements are taken modulo the number of elements inserted so far.
#[derive(Arbitrary, Debug)]
enum Op {
    Insert(After),
    InsertAt(After),
    /// Inserts an element whose deadline is this many milliseconds in the past.
    InsertLate(u8),
    Remove(u16),
    Reset(u16, After),
    ResetAt(u16, After),
    /// Resets an element to a deadline this many milliseconds in the past.
    ResetLate(u16, u8),
    Peek,
    PollOnce,
    PollAll,
    Advance(After),
    Compact,
    ShrinkToFit,
    Reserve(u8),
    Clear,
}

/// A duration.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum After {
    Millis(u8),
    Micros(u16),
    /// A number of ticks, plus a few nanoseconds.
    Ticks(u16, i8),
    /// A duration around a power of two of ticks, where levels begin.
    Edge(u8, i8),
    /// The longest duration. An element with it never expires.
    Max,
}

impl After {
    fn nanos(self) -> Option<u64> {
        match self {
            Self::Millis(millis) => Some(u64::from(millis) * MILLI),
            Self::Micros(micros) => Some(u64::from(micros) * 1_000),
            Self::Ticks(ticks, off) => {
                Some((u64::from(ticks) * FINE_TICK).saturating_add_signed(off.into()))
            }
            // Up to 19 days.
            Self::Edge(bit, off) => {
                Some(((1 << (bit % 37)) * FINE_TICK).saturating_add_signed(off.into()))
            }
            Self::Max => None,
        }
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the program knows of an element in the queue.
struct Element {
    key: Key,
    /// The deadline, or `None` for an element that never expires.
    deadline: Option<u64>,
    set_at: u64,
}

impl Element {
    /// Returns whether `reported` is the deadline, rounded to a tick. If the deadline had passed
    /// when it was set, the current time counts as the deadline.
    fn is_deadline(&self, reported: u64, tick: u64) -> bool {
        match self.deadline {
            Some(deadline) => {
                let latest = deadline.max(self.set_at) + tick;
                (deadline..latest).contains(&reported)
            }
            None => reported > self.set_at,
        }
    }

    fn must_be_out(&self, now: u64, tick: u64) -> bool {
        self.deadline
            .is_some_and(|deadline| deadline.next_multiple_of(tick) <= now)
    }
}

struct Run {
    start: Instant,
    queue: DelayQueue<usize>,
    tick: u64,
    elements: BTreeMap<usize, Element>,
    /// The keys of all elements inserted so far, by number.
    keys: Vec<Key>,
    woken: Arc<Woken>,
    waker: Waker,
    /// Whether the latest poll was pending, so that the queue must wake the task.
    waits: bool,
    /// Whether the latest poll left the queue empty, so that an insertion must wake the task.
    was_emptied: bool,
}

impl Program {
    pub fn run(self) {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        // A lost wake-up makes the program fail instead of hang.
        let end = Duration::from_secs(100 * 365 * 86_400);
        let done = runtime.unwrap().block_on(unconstrained(async {
            tokio::time::timeout(end, Run::new(self.fine).run(self.ops)).await
        }));
        done.expect("a wake-up was lost");
    }
}

impl Run {
    fn new(fine: bool) -> Self {
        let woken = Arc::new(Woken::default());
        // Creates the timer before the clock moves, because the timer counts its ticks from its
        // creation.
        let timer = Timer::current();
        Self {
            start: Instant::now(),
            queue: if fine {
                DelayQueue::with_timer(&timer)
            } else {
                DelayQueue::new()
            },
            tick: if fine { FINE_TICK } else { MILLI },
            elements: BTreeMap::new(),
            keys: Vec::new(),
            waker: Waker::from(woken.clone()),
            woken,
            waits: false,
            was_emptied: false,
        }
    }

    fn now(&self) -> u64 {
        self.since_start(Instant::now())
    }

    fn since_start(&self, instant: Instant) -> u64 {
        let nanos = instant.saturating_duration_since(self.start).as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    async fn run(mut self, ops: Vec<Op>) {
        for op in ops.into_iter().take(MOST) {
            self.apply(op).await;
            // Lets the driver run.
            for _ in 0..8 {
                yield_now().await;
            }
            self.check();
        }
        self.drain().await;
    }

    async fn apply(&mut self, op: Op) {
        let now = Instant::now();
        let far = now + Duration::from_secs(200 * 365 * 86_400);
        let at = |after: After| {
            after
                .nanos()
                .map_or(far, |nanos| now + Duration::from_nanos(nanos))
        };
        let duration = |after: After| after.nanos().map_or(Duration::MAX, Duration::from_nanos);
        let late = |millis: u8| {
            let before = now.checked_sub(Duration::from_millis(millis.into()));
            before.unwrap_or(now)
        };
        let since = |after: After| Some(self.now() + after.nanos()?);
        match op {
            Op::Insert(after) => {
                let deadline = since(after);
                let key = self.queue.insert(self.keys.len(), duration(after));
                self.inserted(key, deadline);
            }
            Op::InsertAt(after) => {
                let deadline = since(after);
                let key = self.queue.insert_at(self.keys.len(), at(after));
                self.inserted(key, deadline);
            }
            Op::InsertLate(millis) => {
                let deadline = Some(self.since_start(late(millis)));
                let key = self.queue.insert_at(self.keys.len(), late(millis));
                self.inserted(key, deadline);
            }
            Op::Remove(chosen) => {
                let Some((number, key)) = self.chosen(chosen) else {
                    return;
                };
                let removed = self.queue.try_remove(&key);
                assert_eq!(removed.is_some(), self.elements.contains_key(&number));
                if let Some(removed) = removed {
                    self.gone(&removed);
                }
            }
            Op::Reset(chosen, after) => {
                let deadline = since(after);
                let Some((number, key)) = self.chosen(chosen) else {
                    return;
                };
                let reset = self.queue.try_reset(&key, duration(after));
                self.was_reset(number, reset, deadline);
            }
            Op::ResetAt(chosen, after) => {
                let deadline = since(after);
                let Some((number, key)) = self.chosen(chosen) else {
                    return;
                };
                let reset = self.queue.try_reset_at(&key, at(after));
                self.was_reset(number, reset, deadline);
            }
            Op::ResetLate(chosen, millis) => {
                let deadline = Some(self.since_start(late(millis)));
                let Some((number, key)) = self.chosen(chosen) else {
                    return;
                };
                let reset = self.queue.try_reset_at(&key, late(millis));
                self.was_reset(number, reset, deadline);
            }
            Op::Peek => self.peek(),
            Op::PollOnce => drop(self.poll()),
            Op::PollAll => self.poll_all().await,
            Op::Advance(after) => {
                if let Some(nanos) = after.nanos() {
                    tokio_wheel::advance(Duration::from_nanos(nanos)).await;
                }
            }
            Op::Compact => self.queue.compact(),
            Op::ShrinkToFit => self.queue.shrink_to_fit(),
            Op::Reserve(additional) => {
                let additional = additional.into();
                self.queue.reserve(additional);
                assert!(self.queue.capacity() >= self.queue.len() + additional);
            }
            Op::Clear => {
                self.queue.clear();
                self.elements.clear();
            }
        }
    }

    /// Returns an element by its number, with its key. The element may have left the queue.
    fn chosen(&self, chosen: u16) -> Option<(usize, Key)> {
        let number = usize::from(chosen).checked_rem(self.keys.len())?;
        Some((number, self.keys[number]))
    }

    fn inserted(&mut self, key: Key, deadline: Option<u64>) {
        let set_at = self.now();
        let element = Element {
            key,
            deadline,
            set_at,
        };
        self.elements.insert(self.keys.len(), element);
        self.keys.push(key);
    }

    fn was_reset(&mut self, number: usize, reset: bool, deadline: Option<u64>) {
        let now = self.now();
        let element = self.elements.get_mut(&number);
        assert_eq!(reset, element.is_some());
        if let Some(element) = element {
            element.deadline = deadline;
            element.set_at = now;
        }
    }

    /// Checks an element that the queue has returned.
    fn gone(&mut self, out: &Expired<usize>) -> Element {
        let element = self.elements.remove(out.get_ref());
        let element = element.expect("the element was in the queue");
        assert_eq!(out.key(), element.key);
        assert!(element.is_deadline(self.since_start(out.deadline()), self.tick));
        element
    }

    fn peek(&self) {
        let now = Instant::now();
        let first = self
            .queue
            .peek()
            .map(|key| self.queue.deadline(&key).max(now));
        let deadlines = self.elements.values().map(|element| &element.key);
        let earliest = deadlines.map(|key| self.queue.deadline(key).max(now)).min();
        assert_eq!(first, earliest, "the element is not the first");
    }

    /// Polls once, and checks the element that the queue returns.
    fn poll(&mut self) -> Option<Expired<usize>> {
        self.woken.0.store(false, Ordering::Relaxed);
        let polled = self
            .queue
            .poll_expired(&mut Context::from_waker(&self.waker));
        self.waits = polled.is_pending();
        self.was_emptied = self.queue.is_empty();
        match polled {
            Poll::Ready(Some(out)) => {
                let element = self.gone(&out);
                let deadline = element
                    .deadline
                    .expect("an element without a deadline expired");
                assert!(deadline <= self.now(), "{deadline} is out early");
                Some(out)
            }
            Poll::Ready(None) => {
                assert!(self.elements.is_empty(), "not all came out");
                None
            }
            Poll::Pending => {
                assert!(!self.elements.is_empty(), "pending, while empty");
                None
            }
        }
    }

    /// Polls until no expired element is left.
    async fn poll_all(&mut self) {
        let mut last = None;
        loop {
            while let Some(out) = self.poll() {
                assert!(last <= Some(out.deadline()), "in the wrong order");
                last = Some(out.deadline());
            }
            // The queue may have yielded before it was done.
            yield_now().await;
            if !self.woken.0.load(Ordering::Relaxed) {
                break;
            }
        }
        let now = self.now();
        let overdue = self
            .elements
            .values()
            .any(|element| element.must_be_out(now, self.tick));
        assert!(!overdue, "an element did not come out");
    }

    /// Checks what must hold between two operations.
    fn check(&mut self) {
        let now = self.now();
        assert_eq!(self.queue.len(), self.elements.len());
        assert_eq!(self.queue.is_empty(), self.elements.is_empty());
        assert!(self.queue.capacity() >= self.queue.len());
        for element in self.elements.values() {
            let reported = self.queue.try_deadline(&element.key);
            let reported = self.since_start(reported.expect("the element is in the queue"));
            assert!(element.is_deadline(reported, self.tick), "{reported}");
        }
        let overdue = (self.elements.values()).any(|element| element.must_be_out(now, self.tick));
        let must_poll = self.waits && (overdue || self.elements.is_empty());
        let must_poll = must_poll || self.was_emptied && overdue;
        assert!(
            !must_poll || self.woken.0.load(Ordering::Relaxed),
            "no task polls the queue"
        );
    }

    /// Waits until all elements with a deadline have expired. Then removes the other elements, and
    /// checks all keys.
    async fn drain(mut self) {
        while self
            .elements
            .values()
            .any(|element| element.deadline.is_some())
        {
            let before = self.now();
            let out = poll_fn(|cx| self.queue.poll_expired(cx)).await;
            let element = self.gone(&out.expect("the queue is not empty"));
            let deadline = element
                .deadline
                .expect("an element without a deadline expired");
            assert!(deadline <= self.now(), "{deadline} is out early");
            // Each of the two timers moves the clock in milliseconds.
            let latest = before.max(deadline) + self.tick + 2 * MILLI;
            assert!(self.now() <= latest, "{deadline} is out late");
        }
        for (number, key) in self.keys.iter().enumerate() {
            let removed = self.queue.try_remove(key).map(Expired::into_inner);
            assert_eq!(
                removed,
                self.elements.contains_key(&number).then_some(number)
            );
            assert_eq!(self.queue.try_deadline(key), None);
            assert!(!self.queue.try_reset(key, Duration::ZERO));
        }
        assert!(self.queue.is_empty());
    }
}

//! Random programs run on this queue and on tokio-util's queue. Both must return the same elements with the same
//! deadlines at the same times.
//!
//! Delays are in milliseconds, so both queues round in the same way. Two things are not compared: the order of
//! elements within a millisecond, and a deadline that had passed when it was set.

use std::fmt::Debug;

use proptest::{collection::vec, prelude::*};
use tokio::task::coop::unconstrained;

use super::*;

/// The number and the deadline of an element that has expired.
type Out = (usize, Instant);

trait Queue: Default + Send + 'static {
    type Key: Copy + Debug + PartialEq + Send;

    /// Whether the key of an element that has left may name another element.
    const ALIASES: bool = false;

    fn insert(&mut self, value: usize, delay: Duration) -> Self::Key;
    fn insert_at(&mut self, value: usize, when: Instant) -> Self::Key;
    fn remove(&mut self, key: Self::Key) -> Out;
    fn try_remove(&mut self, key: Self::Key) -> Option<Out>;
    fn reset(&mut self, key: Self::Key, delay: Duration);
    fn reset_at(&mut self, key: Self::Key, when: Instant);
    fn deadline(&self, key: Self::Key) -> Instant;
    fn peek(&self) -> Option<Self::Key>;
    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Self::Key, Out)>>;
    fn clear(&mut self);
    /// Returns the number of elements.
    fn len(&self) -> usize;
    /// Reserves memory for more elements, or frees unused memory.
    fn change_memory(&mut self, op: &Op);
    /// Checks the key of an element that has left.
    fn assert_absent(&mut self, _key: Self::Key) {}
}

macro_rules! impl_queue {
    ($queue:ty, $key:ty, { $($own:tt)* }) => {
        impl Queue for $queue {
            type Key = $key;

            $($own)*

            fn insert(&mut self, value: usize, delay: Duration) -> Self::Key {
                <$queue>::insert(self, value, delay)
            }
            fn insert_at(&mut self, value: usize, when: Instant) -> Self::Key {
                <$queue>::insert_at(self, value, when)
            }
            fn remove(&mut self, key: Self::Key) -> Out {
                let removed = <$queue>::remove(self, &key);
                assert_eq!(removed.key(), key);
                (*removed.get_ref(), removed.deadline())
            }
            fn try_remove(&mut self, key: Self::Key) -> Option<Out> {
                let removed = <$queue>::try_remove(self, &key)?;
                assert_eq!(removed.key(), key);
                Some((*removed.get_ref(), removed.deadline()))
            }
            fn reset(&mut self, key: Self::Key, delay: Duration) {
                <$queue>::reset(self, &key, delay);
            }
            fn reset_at(&mut self, key: Self::Key, when: Instant) {
                <$queue>::reset_at(self, &key, when);
            }
            fn deadline(&self, key: Self::Key) -> Instant {
                <$queue>::deadline(self, &key)
            }
            fn peek(&self) -> Option<Self::Key> {
                <$queue>::peek(self)
            }
            fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Self::Key, Out)>> {
                <$queue>::poll_expired(self, cx).map(|expired| {
                    let expired = expired?;
                    Some((expired.key(), (*expired.get_ref(), expired.deadline())))
                })
            }
            fn clear(&mut self) {
                <$queue>::clear(self);
            }
            fn len(&self) -> usize {
                let len = <$queue>::len(self);
                assert_eq!(self.is_empty(), len == 0);
                len
            }
            fn change_memory(&mut self, op: &Op) {
                let mut least = self.len();
                match *op {
                    Op::Compact => self.compact(),
                    Op::ShrinkToFit => self.shrink_to_fit(),
                    Op::Reserve(additional) => {
                        self.reserve(additional);
                        least += additional;
                    }
                    _ => return,
                }
                assert!(self.capacity() >= least);
            }
        }
    };
}

impl_queue!(
    tokio_util::time::DelayQueue<usize>,
    tokio_util::time::delay_queue::Key,
    {
        const ALIASES: bool = true;
    }
);

impl_queue!(DelayQueue<usize>, delay_queue::Key, {
    fn assert_absent(&mut self, key: Self::Key) {
        assert_eq!(self.try_deadline(&key), None);
        assert!(!self.try_reset(&key, Duration::ZERO));
        assert!(!self.try_reset_at(&key, Instant::now()));
        assert!(DelayQueue::try_remove(self, &key).is_none());
    }
});

/// Each `usize` chooses one of the elements inserted so far. The element may have left.
#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    InsertAt(i64),
    Remove(usize),
    TryRemove(usize),
    Reset(usize, u64),
    ResetAt(usize, i64),
    Peek,
    Compact,
    ShrinkToFit,
    Reserve(usize),
    Clear,
    Advance(u64),
    PollAll,
    Wait,
}

/// Delays in milliseconds within a level of tokio-util's wheel, at its edges, and far away. They are odd or 0.
fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        4 => (0..30_u64).prop_map(|half| half * 2 + 1),
        3 => (0..1_000_u64).prop_map(|half| half * 2 + 1),
        2 => (1..30_u32, 0..5_u64).prop_map(|(bit, off)| ((1_u64 << bit) + off) | 1),
    ]
}

/// The values of [`delay`], and instants in the past.
fn offset() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => delay().prop_map(|delay| delay as i64),
        1 => -2_000..0_i64,
    ]
}

/// The sleeps of a task. They are even, so the task never acts in a millisecond in which an element expires.
fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (1..30_u64).prop_map(|half| half * 2),
        2 => (1..2_000_u64).prop_map(|half| half * 2),
        1 => (1..30_u32).prop_map(|bit| 1_u64 << bit),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    let key = any::<usize>;
    prop_oneof![
        6 => delay().prop_map(Op::Insert),
        3 => offset().prop_map(Op::InsertAt),
        1 => key().prop_map(Op::Remove),
        1 => key().prop_map(Op::TryRemove),
        3 => (key(), delay()).prop_map(|(key, by)| Op::Reset(key, by)),
        2 => (key(), offset()).prop_map(|(key, by)| Op::ResetAt(key, by)),
        1 => Just(Op::Peek),
        1 => Just(Op::Compact),
        1 => Just(Op::ShrinkToFit),
        1 => (0..2_000_usize).prop_map(Op::Reserve),
        1 => Just(Op::Clear),
        4 => pause().prop_map(Op::Advance),
        2 => Just(Op::PollAll),
        1 => Just(Op::Wait),
    ]
}

/// The events, each with the virtual time since the start.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    CameOut(usize, Set),
    Removed(usize, Set),
    Reset(usize, Set),
    Absent(usize),
    Peeked(Option<Set>),
    Has(usize),
}

/// A deadline, if it had not passed when it was set.
type Set = Option<Duration>;

/// A queue while a program runs on it.
struct Run<Q: Queue> {
    start: Instant,
    queue: Q,
    /// For each number, the element's key and the time at which its deadline was set. `None` after the element has left.
    elements: Vec<(Q::Key, Option<Instant>)>,
    log: Vec<(Duration, Event)>,
}

impl<Q: Queue> Run<Q> {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            queue: Q::default(),
            elements: Vec::new(),
            log: Vec::new(),
        }
    }

    fn note(&mut self, event: Event) {
        self.log.push((self.start.elapsed(), event));
    }

    /// Returns the deadline of an element if the queues must agree on it.
    fn set(&self, value: usize, deadline: Instant) -> Set {
        let set_at = self.elements[value].1.expect("the element is in the queue");
        (deadline > set_at).then(|| deadline - self.start)
    }

    /// Records that an element has left the queue.
    fn gone(&mut self, (value, deadline): Out, event: fn(usize, Set) -> Event) {
        let set = self.set(value, deadline);
        self.elements[value].1 = None;
        self.note(event(value, set));
    }

    /// Polls all expired elements.
    fn poll_all(&mut self, cx: &mut Context<'_>) {
        let mut last = None;
        while let Poll::Ready(Some((key, out))) = self.queue.poll_expired(cx) {
            let (value, deadline) = out;
            assert_eq!(key, self.elements[value].0);
            assert!(Instant::now() >= deadline, "early");
            // A deadline that had passed when it was set has no certain place in the order.
            let set_at = self.elements[value].1.expect("it comes out once");
            assert!(last <= Some(deadline.max(set_at)), "in the wrong order");
            last = last.max(Some(deadline));
            self.gone(out, Event::CameOut);
        }
        // Within a millisecond, the elements are sorted by number.
        let now = self.start.elapsed();
        let other =
            |(when, event): &(Duration, Event)| *when < now || !matches!(event, Event::CameOut(..));
        let tail = self.log.iter().rposition(other).map_or(0, |last| last + 1);
        self.log[tail..].sort();
    }

    async fn poll_all_once(&mut self) {
        poll_fn(|cx| {
            self.poll_all(cx);
            Poll::Ready(())
        })
        .await;
    }

    fn apply(&mut self, op: &Op) {
        let now = Instant::now();
        let at = |offset: i64| match offset {
            0.. => now + ms(offset as u64),
            past => now - ms(past.unsigned_abs()),
        };
        match *op {
            Op::Insert(delay) => {
                let key = self.queue.insert(self.elements.len(), ms(delay));
                self.inserted(key);
            }
            Op::InsertAt(offset) => {
                let key = self.queue.insert_at(self.elements.len(), at(offset));
                self.inserted(key);
            }
            Op::Remove(chosen) => self.with(chosen, |run, _, key| {
                let out = run.queue.remove(key);
                run.gone(out, Event::Removed);
            }),
            Op::TryRemove(chosen) => self.with(chosen, |run, _, key| {
                let out = run.queue.try_remove(key).expect("it is there");
                run.gone(out, Event::Removed);
            }),
            Op::Reset(chosen, delay) => self.with(chosen, |run, value, key| {
                run.queue.reset(key, ms(delay));
                run.was_set(value, key);
            }),
            Op::ResetAt(chosen, offset) => self.with(chosen, |run, value, key| {
                run.queue.reset_at(key, at(offset));
                run.was_set(value, key);
            }),
            Op::Peek => {
                let first = self.queue.peek().map(|key| self.queue.deadline(key));
                let due = |first: Instant| (first > now).then(|| first - self.start);
                let peeked = first.map(due);
                self.note(Event::Peeked(peeked));
            }
            Op::Compact | Op::ShrinkToFit | Op::Reserve(_) => self.queue.change_memory(op),
            Op::Clear => {
                self.queue.clear();
                let elements = self.elements.iter_mut();
                elements.for_each(|(_, set_at)| *set_at = None);
            }
            Op::Advance(_) | Op::PollAll | Op::Wait => {}
        }
        self.note(Event::Has(self.queue.len()));
    }

    fn inserted(&mut self, key: Q::Key) {
        self.elements.push((key, None));
        self.was_set(self.elements.len() - 1, key);
    }

    fn was_set(&mut self, value: usize, key: Q::Key) {
        self.elements[value].1 = Some(Instant::now());
        let set = self.set(value, self.queue.deadline(key));
        self.note(Event::Reset(value, set));
    }

    /// Calls `act` on an element if it is in the queue.
    fn with(&mut self, chosen: usize, act: impl FnOnce(&mut Self, usize, Q::Key)) {
        if self.elements.is_empty() {
            return;
        }
        let value = chosen % self.elements.len();
        let (key, set_at) = self.elements[value];
        if set_at.is_some() {
            return act(self, value, key);
        }
        if !Q::ALIASES {
            self.queue.assert_absent(key);
        }
        self.note(Event::Absent(value));
    }
}

/// Polls the queue at the steps that the program names.
async fn polled_by_hand<Q: Queue>(program: Vec<Op>) -> Vec<(Duration, Event)> {
    let mut run = Run::<Q>::new();
    tokio::time::sleep(ms(1)).await;
    for op in program.iter().chain([&Op::Wait; 200]) {
        run.apply(op);
        match op {
            Op::Advance(millis) => tokio::time::sleep(ms(*millis)).await,
            Op::PollAll => run.poll_all_once().await,
            Op::Wait => {
                let next = poll_fn(|cx| run.queue.poll_expired(cx)).await;
                let Some((_, out)) = next else { continue };
                run.gone(out, Event::CameOut);
                run.poll_all_once().await;
                // The clock returns to an odd millisecond.
                if run.start.elapsed().as_millis() % 2 == 0 {
                    tokio::time::sleep(ms(1)).await;
                }
            }
            _ => {}
        }
    }
    assert_eq!(run.queue.len(), 0);
    run.log
}

/// Another task always waits for the queue, even if the queue is empty.
async fn waited_for<Q: Queue>(program: Vec<Op>) -> Vec<(Duration, Event)> {
    let run = Arc::new(Mutex::new(Run::<Q>::new()));
    tokio::time::sleep(ms(1)).await;
    let waits = tokio::spawn(unconstrained({
        let run = run.clone();
        poll_fn(move |cx| {
            run.lock().unwrap().poll_all(cx);
            Poll::<()>::Pending
        })
    }));
    for op in &program {
        run.lock().unwrap().apply(op);
        if let Op::Advance(millis) = op {
            tokio::time::sleep(ms(*millis)).await;
        }
        settle().await;
    }
    tokio::time::sleep(secs(10_000_000)).await;
    waits.abort();
    drop(waits.await);
    let run = Arc::into_inner(run).unwrap().into_inner().unwrap();
    assert_eq!(run.queue.len(), 0);
    run.log
}

/// Runs a program on both queues and compares the logs.
macro_rules! compare {
    ($run:ident, $program:ident) => {{
        type Theirs = tokio_util::time::DelayQueue<usize>;
        let ours = paused().block_on(unconstrained($run::<DelayQueue<usize>>($program.clone())));
        let theirs = paused().block_on(unconstrained($run::<Theirs>($program)));
        prop_assert_eq!(ours, theirs, "left: tokio_wheel, right: tokio_util");
    }};
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_queue_polled_by_hand(program in vec(any_op(), 1..100)) {
        compare!(polled_by_hand, program);
    }

    #[test]
    fn a_queue_that_a_task_waits_for(program in vec(any_op(), 1..100)) {
        compare!(waited_for, program);
    }
}

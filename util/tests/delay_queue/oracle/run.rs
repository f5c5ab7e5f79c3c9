//! Runs a program on the queue of the module above, and logs its events.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use tokio::task::coop::unconstrained;
use tokio_wheel::{Duration, Instant};

use super::{DelayQueue, Expired, Key, assert_absent};
use crate::{
    delay_queue::oracle::{Event, Log, Op, Set},
    support::{ms, secs, settle},
};

/// A queue while a program runs on it.
struct Run {
    start: Instant,
    queue: DelayQueue<usize>,
    /// For each number, the element's key and the time at which its deadline was set. `None` after the element has left.
    elements: Vec<(Key, Option<Instant>)>,
    log: Log,
}

impl Run {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            queue: DelayQueue::default(),
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
    fn gone(&mut self, element: &Expired<usize>, event: fn(usize, Set) -> Event) {
        let value = *element.get_ref();
        assert_eq!(element.key(), self.elements[value].0);
        let set = self.set(value, element.deadline());
        self.elements[value].1 = None;
        self.note(event(value, set));
    }

    /// Polls all expired elements.
    fn poll_all(&mut self, cx: &mut Context<'_>) {
        let mut last = None;
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(cx) {
            let (value, deadline) = (*expired.get_ref(), expired.deadline());
            assert!(Instant::now() >= deadline, "early");
            // A deadline that had passed when it was set has no certain place in the order.
            let set_at = self.elements[value].1.expect("it comes out once");
            assert!(last <= Some(deadline.max(set_at)), "in the wrong order");
            last = last.max(Some(deadline));
            self.gone(&expired, Event::CameOut);
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
                let removed = run.queue.remove(&key);
                run.gone(&removed, Event::Removed);
            }),
            Op::TryRemove(chosen) => self.with(chosen, |run, _, key| {
                let removed = run.queue.try_remove(&key).expect("it is there");
                run.gone(&removed, Event::Removed);
            }),
            Op::Reset(chosen, delay) => self.with(chosen, |run, value, key| {
                run.queue.reset(&key, ms(delay));
                run.was_set(value, key);
            }),
            Op::ResetAt(chosen, offset) => self.with(chosen, |run, value, key| {
                run.queue.reset_at(&key, at(offset));
                run.was_set(value, key);
            }),
            Op::Peek => {
                let first = self.queue.peek().map(|key| self.queue.deadline(&key));
                let due = |first: Instant| (first > now).then(|| first - self.start);
                let peeked = first.map(due);
                self.note(Event::Peeked(peeked));
            }
            Op::Compact => self.queue.compact(),
            Op::ShrinkToFit => self.queue.shrink_to_fit(),
            Op::Reserve(additional) => {
                self.queue.reserve(additional);
                assert!(self.queue.capacity() >= self.queue.len() + additional);
            }
            Op::Clear => {
                self.queue.clear();
                let elements = self.elements.iter_mut();
                elements.for_each(|(_, set_at)| *set_at = None);
            }
            Op::Advance(_) | Op::PollAll | Op::Wait => {}
        }
        let len = self.queue.len();
        assert!(self.queue.capacity() >= len && self.queue.is_empty() == (len == 0));
        self.note(Event::Has(len));
    }

    fn inserted(&mut self, key: Key) {
        self.elements.push((key, None));
        self.was_set(self.elements.len() - 1, key);
    }

    fn was_set(&mut self, value: usize, key: Key) {
        self.elements[value].1 = Some(Instant::now());
        let set = self.set(value, self.queue.deadline(&key));
        self.note(Event::Reset(value, set));
    }

    /// Calls `act` on an element if it is in the queue.
    fn with(&mut self, chosen: usize, act: impl FnOnce(&mut Self, usize, Key)) {
        if self.elements.is_empty() {
            return;
        }
        let value = chosen % self.elements.len();
        let (key, set_at) = self.elements[value];
        if set_at.is_some() {
            return act(self, value, key);
        }
        assert_absent(&mut self.queue, key);
        self.note(Event::Absent(value));
    }
}

/// Polls the queue at the steps that the program names.
pub(crate) async fn polled_by_hand(program: Vec<Op>) -> Log {
    let mut run = Run::new();
    tokio::time::sleep(ms(1)).await;
    for op in program.iter().chain([&Op::Wait; 200]) {
        run.apply(op);
        match op {
            Op::Advance(millis) => tokio::time::sleep(ms(*millis)).await,
            Op::PollAll => run.poll_all_once().await,
            Op::Wait => {
                let next = poll_fn(|cx| run.queue.poll_expired(cx)).await;
                let Some(expired) = next else { continue };
                run.gone(&expired, Event::CameOut);
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
pub(crate) async fn waited_for(program: Vec<Op>) -> Log {
    let run = Arc::new(Mutex::new(Run::new()));
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

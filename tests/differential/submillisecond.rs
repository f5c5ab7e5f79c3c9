//! Programs between two milliseconds, where the timers round differently by design.
//!
//! A program moves the clock by nanoseconds. Let `up(t)` be `t` rounded up to milliseconds since
//! the start of the runtime. The two timers promise this for a deadline `d`:
//!
//! * Tokio's timer rounds the clock down to milliseconds. It is ready from the first millisecond
//!   that is not before `d`. So it is ready once the clock has reached `up(d)`.
//! * This crate's timer counts ticks of 1/64 ms since its first use. It is ready from the first
//!   tick that is not before `d`. That tick is less than a tick later than `d`.
//!
//! So neither timer is early, and each is late by less than its own step.
//!
//! While the program advances the clock, nothing else matters, because `advance` fires all due
//! entries. Otherwise, the clock moves by itself, in whole milliseconds. So its fraction `f` of a
//! millisecond stays.
//!
//! * For tokio's sleep, the clock moves to `up(d) + f`.
//! * For this crate's sleep, the clock moves to `up(d + a tick) + f` at the latest. That is a
//!   millisecond later only if `d` is less than a tick before a whole millisecond.
//!
//! If the clock stops in between for another sleep, this crate's sleep fires by then.

use std::{collections::BTreeMap, iter, time::Duration};

use proptest::{collection::vec, prelude::*};
use tokio::task::{JoinSet, yield_now};
use tokio_test::task;
use tokio_wheel::Instant;

use super::{
    programs, run,
    time::{Ours, Theirs, Time},
};
use crate::support::settle;

/// The number of programs of each kind.
const PROGRAMS: u32 = 1_000;

const MILLI: u64 = 1_000_000;

/// This crate's default tick, in nanoseconds.
const TICK: u64 = MILLI / 64;

/// Rounds up to a millisecond.
fn up(nanos: u64) -> u64 {
    nanos.next_multiple_of(MILLI)
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap()
}

/// Chooses nanoseconds that matter: around a tick and a millisecond, odd, zero, and far.
fn distance() -> impl Strategy<Value = u64> {
    let around = |step: u64| {
        (0..200_u64, -2..3_i64)
            .prop_map(move |(steps, off)| (steps * step).saturating_add_signed(off))
    };
    prop_oneof![
        2 => around(TICK),
        2 => around(MILLI),
        2 => (0..200_u64, 0..=TICK).prop_map(|(millis, before)| (millis * MILLI).saturating_sub(before)),
        3 => 0..5 * MILLI,
        2 => 0..500 * MILLI,
        1 => 0..1_000_000 * MILLI,
    ]
}

/// A step of the root, which polls a few sleeps itself.
#[derive(Clone, Debug)]
enum Op {
    /// Resets a sleep to this much later than now, and polls it.
    Reset(usize, u64),
    /// Makes a new sleep that ends this much later than now, and polls it.
    Put(usize, u64),
    Drop(usize),
    Advance(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..4_usize, distance()).prop_map(|(sleep, after)| Op::Reset(sleep, after)),
        2 => (0..4_usize, distance()).prop_map(|(sleep, after)| Op::Put(sleep, after)),
        1 => (0..4_usize).prop_map(Op::Drop),
        6 => distance().prop_map(Op::Advance),
    ]
}

/// Runs a program, and checks whether each sleep is ready.
///
/// `must` and `may` get the current time and the deadline. A sleep must be ready if `must` holds.
/// It must not be ready unless `may` holds.
fn check_advances<T: Time>(
    ops: &[Op],
    may: fn(u64, u64) -> bool,
    must: fn(u64, u64) -> bool,
) -> Result<(), String> {
    run::<T, _>(async {
        let start = Instant::now();
        let clock = || nanos(start.elapsed());
        let mut sleeps = BTreeMap::new();
        for op in ops {
            let now = clock();
            match *op {
                Op::Put(number, after) => {
                    let sleep = task::spawn(Box::pin(T::sleep(Duration::from_nanos(after))));
                    sleeps.insert(number, (sleep, now + after));
                }
                Op::Reset(number, after) => {
                    if let Some((sleep, deadline)) = sleeps.get_mut(&number) {
                        *deadline = now + after;
                        let at = Instant::now() + Duration::from_nanos(after);
                        T::reset(sleep.as_mut(), at);
                    }
                }
                Op::Drop(number) => drop(sleeps.remove(&number)),
                Op::Advance(by) => T::advance(Duration::from_nanos(by)).await,
            }
            if let Op::Put(number, _) | Op::Reset(number, _) = op {
                if let Some((sleep, deadline)) = sleeps.get_mut(number) {
                    if sleep.poll().is_ready() {
                        assert!(may(now, *deadline), "{deadline} is ready at {now}");
                        sleeps.remove(number);
                    }
                }
            }
            settle().await;
            let now = clock();
            sleeps.retain(|_, (sleep, deadline)| {
                let woken = sleep.is_woken();
                let ready = sleep.poll().is_ready();
                assert!(woken || !ready, "{deadline} did not wake its task");
                assert!(
                    !ready || may(now, *deadline),
                    "{deadline} is ready at {now}"
                );
                assert!(
                    ready || !must(now, *deadline),
                    "{deadline} is not ready at {now}"
                );
                !ready
            });
        }
    })
}

/// A child, whose waits end at certain instants.
#[derive(Clone, Debug)]
enum Child {
    Sleep(u64),
    /// Resets a sleep whose first deadline is far.
    Reset(u64),
    Timeout(u64),
    /// An interval that starts after the first number of nanoseconds, with a period of the second
    /// number. The third number counts its ticks.
    Interval(u64, u64, usize),
}

fn child() -> impl Strategy<Value = Child> {
    prop_oneof![
        distance().prop_map(Child::Sleep),
        distance().prop_map(Child::Reset),
        distance().prop_map(Child::Timeout),
        (distance(), MILLI..20 * MILLI, 1..5_usize)
            .prop_map(|(first, period, ticks)| Child::Interval(first, period, ticks)),
    ]
}

impl Child {
    /// Returns the deadlines, relative to the start of the program.
    fn deadlines(&self) -> Vec<u64> {
        match *self {
            Self::Sleep(at) | Self::Reset(at) | Self::Timeout(at) => vec![at],
            Self::Interval(first, period, ticks) => {
                iter::successors(Some(first), |at| Some(at + period))
                    .take(ticks)
                    .collect()
            }
        }
    }

    /// Returns the times at which the deadlines were reached.
    async fn ends<T: Time>(self, begin: Instant) -> Vec<Duration> {
        let at = |nanos| begin + Duration::from_nanos(nanos);
        match self {
            Self::Sleep(nanos) => T::sleep_until(at(nanos)).await,
            Self::Reset(nanos) => {
                let mut sleep = Box::pin(T::sleep(Duration::from_secs(86_400)));
                tokio::select! {
                    biased;
                    () = &mut sleep => unreachable!("the sleep takes a day"),
                    () = yield_now() => {}
                }
                T::reset(sleep.as_mut(), at(nanos));
                sleep.await;
            }
            Self::Timeout(nanos) => {
                let outcome = T::timeout_at(at(nanos), std::future::pending::<()>()).await;
                assert_eq!(outcome, None);
            }
            Self::Interval(first, period, ticks) => {
                let mut interval = T::interval_at(at(first), Duration::from_nanos(period));
                let mut ends = Vec::new();
                for due in self.deadlines() {
                    assert_eq!(T::tick(&mut interval).await, at(due));
                    ends.push(begin.elapsed());
                }
                assert_eq!(ends.len(), ticks);
                return ends;
            }
        }
        vec![begin.elapsed()]
    }
}

/// Returns when each child reached its deadlines. The clock starts at `offset`.
fn ends<T: Time>(offset: u64, children: &[Child]) -> Result<Vec<Vec<u64>>, String> {
    run::<T, _>(async {
        T::advance(Duration::from_nanos(offset)).await;
        let begin = Instant::now();
        let mut tasks = JoinSet::new();
        for (number, child) in children.iter().cloned().enumerate() {
            tasks.spawn(async move { (number, child.ends::<T>(begin).await) });
        }
        let mut ends = tasks.join_all().await;
        ends.sort();
        ends.into_iter()
            .map(|(_, ends)| ends.into_iter().map(nanos).collect())
            .collect()
    })
}

proptest! {
    #![proptest_config(programs(PROGRAMS))]

    #[test]
    fn what_is_due_fires_when_the_clock_is_advanced(
        // The first use of the timer may be between two milliseconds.
        first in distance(),
        ops in vec(op(), 1..60),
    ) {
        let ops: Vec<Op> = iter::once(Op::Advance(first)).chain(ops).collect();
        let millisecond_is_over = |now, deadline| up(deadline) <= now;
        check_advances::<Theirs>(&ops, millisecond_is_over, millisecond_is_over)
            .map_err(TestCaseError::fail)?;
        let deadline_is_reached = |now, deadline| deadline <= now;
        let tick_is_over = |now, deadline| deadline + TICK - 1 <= now;
        check_advances::<Ours>(&ops, deadline_is_reached, tick_is_over)
            .map_err(TestCaseError::fail)?;
    }

    #[test]
    fn the_clock_that_moves_by_itself_stops_where_it_should(
        offset in distance(),
        children in vec(child(), 1..12),
    ) {
        let theirs = ends::<Theirs>(offset, &children).map_err(TestCaseError::fail)?;
        let ours = ends::<Ours>(offset, &children).map_err(TestCaseError::fail)?;
        for (child, (ours, theirs)) in children.iter().zip(ours.into_iter().zip(theirs)) {
            let ends = ours.into_iter().zip(theirs);
            for (deadline, (ours, theirs)) in child.deadlines().into_iter().zip(ends) {
                let since_start = offset + deadline;
                prop_assert_eq!(theirs, up(since_start) + offset % MILLI - offset);
                prop_assert!(ours >= deadline, "early");
                let latest = up(since_start + TICK - 1) + offset % MILLI - offset;
                prop_assert!(ours <= latest, "this crate is ready at {ours}, allowed is {latest}");
            }
        }
    }
}

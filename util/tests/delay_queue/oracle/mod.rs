//! Random programs run on this queue and on tokio-util's queue. Both must return the same elements with the same
//! deadlines at the same times.
//!
//! Delays are in milliseconds, so both queues round in the same way. Two things are not compared: the order of
//! elements within a millisecond, and a deadline that had passed when it was set.

mod ours;
mod theirs;

use proptest::{collection::vec, prelude::*};
use tokio::task::coop::unconstrained;

use super::*;

/// Each `usize` chooses one of the elements inserted so far. The element may have left.
#[derive(Clone, Debug)]
pub(crate) enum Op {
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

/// An event. The log has it with the virtual time since the start.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    CameOut(usize, Set),
    Removed(usize, Set),
    Reset(usize, Set),
    Absent(usize),
    Peeked(Option<Set>),
    Has(usize),
}

/// A deadline, if it had not passed when it was set.
pub(crate) type Set = Option<Duration>;

pub(crate) type Log = Vec<(Duration, Event)>;

/// Runs a program on both queues and compares the logs.
macro_rules! compare {
    ($run:ident, $program:ident) => {{
        let ours = paused().block_on(unconstrained(ours::run::$run($program.clone())));
        let theirs = paused().block_on(unconstrained(theirs::run::$run($program)));
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

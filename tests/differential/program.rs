//! The type of a program, and the choice of random programs.

use std::{ops::Range, time::Duration};

use proptest::{collection::vec, option, prelude::*};
use tokio_wheel::{Instant, MissedTickBehavior};

/// A step of a task.
///
/// The root is the task that the runtime blocks on. Only the root does `Advance` and `Abort` (see
/// `run`).
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Sleep(Duration),
    SleepUntil(Moment),
    Yield,
    /// Puts a new sleep into a place, and drops the old sleep.
    Put(Place, Duration),
    PutUntil(Place, Moment),
    /// Polls the sleep once.
    Poll(Place),
    Reset(Place, Moment),
    Await(Place),
    Drop(Place),
    /// Waits for the first of the two sleeps, and polls the sleep in the place first. The other sleep is dropped or stays.
    Select(Place, Loser),
    Timeout(Duration, Work),
    TimeoutAt(Moment, Work),
    /// Puts a new interval into a place.
    Start(Place, Option<Moment>, Duration, MissedTickBehavior),
    Tick(Place),
    /// Waits at most this long for a tick.
    TickWithin(Place, Duration),
    ResetInterval(Place, ResetTo),
    Spawn(Vec<Step>),
    JoinAll,
    /// Aborts all children.
    Abort,
    Advance(Duration),
    /// Unlike after `Advance`, the root goes on before the other tasks have done what the new time makes them do.
    Leap(Duration),
}

/// The number of places for sleeps. A task has as many places for intervals.
pub(crate) const PLACES: usize = 2;

pub(crate) type Place = usize;

const PLACE: Range<Place> = 0..PLACES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loser {
    Dropped,
    Stays,
}

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// A duration after now.
    In(Duration),
    /// A duration before now.
    Ago(Duration),
    /// The start of the program.
    Start,
    /// A hundred years after the start of the program.
    Far,
}

impl Moment {
    pub(crate) fn instant(self, start: Instant) -> Instant {
        let now = Instant::now();
        match self {
            Self::In(span) => now + span,
            // The platform limits how far back an instant can go.
            Self::Ago(span) => now.checked_sub(span).unwrap_or(start),
            Self::Start => start,
            Self::Far => start + Duration::from_secs(100 * 365 * 86_400),
        }
    }
}

/// The work inside a timeout.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Ready,
    Never,
    Yields(u8),
    Sleeps(Duration),
    /// Another timeout.
    Within(Duration, Box<Work>),
}

/// The kind of reset of an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResetTo {
    APeriodFromNow,
    Now,
    After(Duration),
    At(Moment),
}

/// Chooses a time that the program may wait for:
///
/// * times of a few milliseconds, so that many coincide;
/// * whole milliseconds and fractions;
/// * times at the edges of the levels of both wheels;
/// * far times.
fn span() -> impl Strategy<Value = Duration> {
    let micros = prop_oneof![
        1 => Just(0),
        4 => (1..20_u64).prop_map(|millis| millis * 1_000),
        4 => 0..20_000_u64,
        2 => (1..500_u64).prop_map(|millis| millis * 1_000),
        2 => 0..500_000_u64,
        2 => (0..5_u32, 1..64_u64, -20..20_i64)
            .prop_map(|(level, slot, off)| (1_000 * (slot << (6 * level))).saturating_add_signed(off)),
    ];
    micros.prop_map(Duration::from_micros)
}

/// Chooses a time that the program need not wait for.
fn any_span() -> impl Strategy<Value = Duration> {
    prop_oneof![12 => span(), 1 => Just(Duration::MAX)]
}

fn moment() -> impl Strategy<Value = Moment> {
    prop_oneof![
        6 => span().prop_map(Moment::In),
        2 => span().prop_map(Moment::Ago),
        1 => Just(Moment::Start),
    ]
}

fn any_moment() -> impl Strategy<Value = Moment> {
    prop_oneof![12 => moment(), 1 => Just(Moment::Far)]
}

fn work() -> impl Strategy<Value = Work> {
    let leaf = prop_oneof![
        1 => Just(Work::Ready),
        2 => Just(Work::Never),
        1 => (1..4_u8).prop_map(Work::Yields),
        4 => any_span().prop_map(Work::Sleeps),
    ];
    leaf.prop_recursive(3, 3, 1, |inner| {
        (any_span(), inner).prop_map(|(span, work)| Work::Within(span, Box::new(work)))
    })
}

fn behavior() -> impl Strategy<Value = MissedTickBehavior> {
    prop_oneof![
        Just(MissedTickBehavior::Burst),
        Just(MissedTickBehavior::Delay),
        Just(MissedTickBehavior::Skip),
    ]
}

fn reset_to() -> impl Strategy<Value = ResetTo> {
    prop_oneof![
        Just(ResetTo::APeriodFromNow),
        Just(ResetTo::Now),
        any_span().prop_map(ResetTo::After),
        any_moment().prop_map(ResetTo::At),
    ]
}

/// Chooses a new sleep for a place.
fn put() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (PLACE, any_span()).prop_map(|(place, span)| Step::Put(place, span)),
        1 => (PLACE, any_moment()).prop_map(|(place, at)| Step::PutUntil(place, at)),
    ]
}

/// Chooses a new interval for a place.
fn start() -> impl Strategy<Value = Step> {
    // A shorter period would cause a burst of very many ticks.
    let period = prop_oneof![
        (1..30_u64).prop_map(Duration::from_millis),
        (500..30_000_u64).prop_map(Duration::from_micros),
    ];
    (PLACE, option::of(any_moment()), period, behavior())
        .prop_map(|(place, at, period, behavior)| Step::Start(place, at, period, behavior))
}

/// Chooses a step that any task may do.
fn step() -> BoxedStrategy<Step> {
    let loser = prop_oneof![Just(Loser::Dropped), Just(Loser::Stays)];
    let sleeps = prop_oneof![
        3 => span().prop_map(Step::Sleep),
        2 => moment().prop_map(Step::SleepUntil),
        1 => Just(Step::Yield),
        6 => put(),
        6 => PLACE.prop_map(Step::Poll),
        8 => (PLACE, any_moment()).prop_map(|(place, at)| Step::Reset(place, at)),
        3 => PLACE.prop_map(Step::Await),
        1 => PLACE.prop_map(Step::Drop),
        4 => (PLACE, loser).prop_map(|(one, loser)| Step::Select(one, loser)),
    ];
    let timeouts = prop_oneof![
        (span(), work()).prop_map(|(span, work)| Step::Timeout(span, work)),
        (moment(), work()).prop_map(|(at, work)| Step::TimeoutAt(at, work)),
        span().prop_map(|span| Step::Timeout(Duration::MAX, Work::Sleeps(span))),
    ];
    let intervals = prop_oneof![
        1 => start(),
        6 => PLACE.prop_map(Step::Tick),
        2 => (PLACE, span()).prop_map(|(place, span)| Step::TickWithin(place, span)),
        2 => (PLACE, reset_to()).prop_map(|(place, to)| Step::ResetInterval(place, to)),
    ];
    // The strategies are boxed, because they are too large for the stack of a test.
    prop_oneof![
        6 => sleeps.boxed(),
        2 => timeouts.boxed(),
        3 => intervals.boxed(),
    ]
    .boxed()
}

/// Chooses a task that first fills some of its places, and then does up to `most` steps.
fn task(step: impl Strategy<Value = Step>, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let places = vec(
        prop_oneof![2 => put(), 1 => start()].boxed(),
        0..=2 * PLACES,
    );
    (places, vec(step, 1..=most)).prop_map(|(mut steps, rest)| {
        steps.extend(rest);
        steps
    })
}

/// Chooses the steps of the root.
pub(crate) fn program() -> impl Strategy<Value = Vec<Step>> {
    let grandchild = task(step(), 8);
    let child = task(
        prop_oneof![
            16 => step(),
            1 => grandchild.prop_map(Step::Spawn),
        ],
        12,
    );
    let step = prop_oneof![
        16 => step(),
        3 => child.prop_map(Step::Spawn),
        1 => Just(Step::JoinAll),
        1 => Just(Step::Abort),
        3 => (0..60_u64).prop_map(|millis| Step::Advance(Duration::from_millis(millis))),
        3 => (0..60_u64).prop_map(|millis| Step::Leap(Duration::from_millis(millis))),
    ];
    task(step, 20)
}

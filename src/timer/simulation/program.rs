//! The type of a program, and the functions that choose random programs.

use std::{fmt, time::Duration};

use proptest::{collection::vec, option, prelude::*};

use crate::driver::clock::DEFAULT_TICK;

/// A program: the timer's parameters and the steps.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) shards: usize,
    pub(super) tick: Duration,
    /// Whether the timer treats the clock as a real clock, not as a paused clock.
    pub(super) is_real: bool,
    /// Whether others keep the workers busy, so that a turn may wake few tasks before they are late.
    pub(super) is_busy: bool,
    pub(super) steps: Vec<Step>,
    /// The thread that drops the driver at the end. If it is `None`, the program drops every handle of the timer.
    pub(super) end: Option<Thread>,
}

/// Prints each step on one line, even if its acts contain other acts.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = (self.is_real, self.is_busy);
        let (shards, tick, end) = (self.shards, self.tick, self.end);
        writeln!(f, "{shards} shards, {tick:?}, (real, busy): {flags:?}")?;
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{number}: {step:?}")?;
        }
        write!(f, "end: {end:?}")
    }
}

/// One step. The oracle checks everything after each step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Do(Thread, Act),
    /// Time passes. The alarm is exact, and the driver is polled whenever it is woken.
    Run(Span, Thread),
    /// The alarm goes off, on time or not. The driver is not polled.
    Ring,
    /// The alarm loses the instant for which it was set.
    Forget,
    /// Sets whether the alarm is deaf. A deaf alarm that is polled late does not notice that its instant has
    /// passed.
    Deaf(bool),
    /// The driver is polled until it parks, even if it was not woken.
    Drive(Thread),
    /// The driver is polled once, even if it was not woken.
    PollDriver(Thread),
}

/// The thread that performs an act.
#[derive(Clone, Copy, Debug)]
pub(super) enum Thread {
    /// A worker of the runtime.
    Worker,
    /// A thread that is not a worker. It belongs to the shard with this number.
    Other(usize),
}

/// An act that a program can perform at any time, even within a waker.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Puts a new future into a place, and drops the old future. If there is a `Guest`, polls the new future.
    Put(Place, What, Moment, Option<Guest>),
    /// Makes and polls several sleeps that have one deadline. The first number is the number of sleeps. If the
    /// second number is `n`, every `n`-th sleep gets a waker with the acts of the `Guest`.
    Storm(usize, Moment, usize, Guest),
    /// Polls futures, with new wakers or with the registered wakers.
    Poll(Which, Option<Guest>),
    Reset(Which, Moment),
    Drop(Which),
    Metrics,
    /// Time passes and nothing else happens, as if all threads were suspended.
    Pass(Span),
    /// The runtime drops the driver. While the driver is polled, the act has no effect.
    DropDriver,
}

/// The number of places for single futures. The storm has its own places.
pub(super) const PLACES: usize = 6;

pub(super) type Place = usize;

/// The futures that an act concerns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    In(Place),
    /// Every `n`-th future of the storm.
    Storm(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Sleep,
    Timeout,
    Interval(Duration),
}

/// The script of a waker: the acts of the waker, and the moment of these acts. A waker acts only once.
#[derive(Clone, Debug, Default)]
pub(super) struct Guest {
    pub(super) on: When,
    pub(super) does: Does,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum When {
    #[default]
    Wake,
    Clone,
    /// The waker acts when a clone of it is dropped.
    Drop,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Does {
    #[default]
    Nothing,
    Panics,
    Acts(Vec<Act>),
    /// Another thread performs the acts. The call of the waker blocks until that thread has finished.
    Blocks(usize, Vec<Act>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Span {
    Time(Duration),
    Ticks(u32),
}

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    In(Span),
    Ago(Span),
    /// An instant near the start of a slot. The numbers are the level of the slot, the number of slots ahead, and
    /// the offset in nanoseconds.
    Edge(u32, u64, i64),
    /// The same deadline as before.
    Same,
}

fn span() -> impl Strategy<Value = Span> {
    let time = prop_oneof![
        2 => Just(Duration::ZERO),
        2 => (1..20_000_u64).prop_map(Duration::from_nanos),
        2 => (1..20_u64).prop_map(Duration::from_millis),
        2 => (0..30_000_000_000_u64).prop_map(Duration::from_nanos),
        3 => (1..20_000_u64).prop_map(|days| Duration::from_secs(86_400 * days)),
    ];
    prop_oneof![
        4 => time.prop_map(Span::Time),
        4 => (0..8_u32).prop_map(Span::Ticks),
        3 => (0..300_u32).prop_map(Span::Ticks),
        1 => (0..20_000_u32).prop_map(Span::Ticks),
    ]
}

fn moment() -> impl Strategy<Value = Moment> {
    prop_oneof![
        8 => span().prop_map(Moment::In),
        1 => span().prop_map(Moment::Ago),
        1 => Just(Moment::In(Span::Time(Duration::MAX))),
        2 => (0..6_u32, 0..4_u64, -2..=2_i64)
            .prop_map(|(level, slots, off)| Moment::Edge(level, slots, off)),
        2 => Just(Moment::Same),
    ]
}

fn thread() -> impl Strategy<Value = Thread> {
    prop_oneof![Just(Thread::Worker), (0..4_usize).prop_map(Thread::Other)]
}

fn put(at: BoxedStrategy<Moment>, guest: BoxedStrategy<Guest>) -> impl Strategy<Value = Act> {
    let what = prop_oneof![
        6 => Just(What::Sleep),
        1 => Just(What::Timeout),
        1 => (1..50_u64).prop_map(|millis| What::Interval(Duration::from_millis(millis))),
    ];
    (0..PLACES, what, at, option::of(guest))
        .prop_map(|(place, what, at, guest)| Act::Put(place, what, at, guest))
}

/// Chooses an act. Its wakers may act too. Such acts are nested at most `depth` times.
///
/// If `amid` is true, most of the acts concern the storm or other entries with its deadline. Wakers of the storm
/// perform them while the driver wakes the storm.
fn act(depth: u32, amid: bool) -> BoxedStrategy<Act> {
    let guest = guest((depth > 0).then(|| act(depth - 1, amid)));
    let (single, storm, same, end) = if amid { (1, 3, 4, 4) } else { (9, 1, 0, 1) };
    let which = prop_oneof![
        single => (0..PLACES).prop_map(Which::In),
        storm => (1..5_usize).prop_map(Which::Storm),
    ];
    let at = prop_oneof![8 => moment(), same => Just(Moment::Same)].boxed();
    let size = prop_oneof![6 => 1..40_usize, 1 => 100..400_usize];
    prop_oneof![
        27 => put(at.clone(), guest.clone()),
        14 * storm => (size, at.clone(), 1..60_usize, guest.clone())
            .prop_map(|(size, at, every, guest)| Act::Storm(size, at, every, guest)),
        54 => (which.clone(), option::weighted(0.8, guest))
            .prop_map(|(which, guest)| Act::Poll(which, guest)),
        30 => (which.clone(), at).prop_map(|(which, at)| Act::Reset(which, at)),
        18 => which.prop_map(Act::Drop),
        5 => Just(Act::Metrics),
        8 => span().prop_map(Act::Pass),
        end => Just(Act::DropDriver),
    ]
    .boxed()
}

/// Chooses a waker that does nothing, panics, or performs some of the `acts`.
fn guest(acts: Option<BoxedStrategy<Act>>) -> BoxedStrategy<Guest> {
    let when = prop_oneof![
        4 => Just(When::Wake),
        1 => Just(When::Clone),
        1 => Just(When::Drop),
    ];
    let plain = prop_oneof![3 => Just(Does::Nothing), 1 => Just(Does::Panics)];
    let does = match acts.map(|act| vec(act, 1..4)) {
        None => plain.boxed(),
        Some(acts) => prop_oneof![
            3 => plain,
            3 => acts.clone().prop_map(Does::Acts),
            1 => (0..4_usize, acts).prop_map(|(thread, acts)| Does::Blocks(thread, acts)),
        ]
        .boxed(),
    };
    (when, does)
        .prop_map(|(on, does)| Guest { on, does })
        .boxed()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        36 => (thread(), act(2, false)).prop_map(|(thread, act)| Step::Do(thread, act)),
        3 => (thread(), span()).prop_map(|(thread, span)| Step::Do(thread, Act::Pass(span))),
        5 => (span(), thread()).prop_map(|(span, thread)| Step::Run(span, thread)),
        3 => Just(Step::Ring),
        1 => Just(Step::Forget),
        1 => any::<bool>().prop_map(Step::Deaf),
        4 => thread().prop_map(Step::Drive),
        2 => thread().prop_map(Step::PollDriver),
    ]
}

/// Chooses a storm that is due soon. Some of its wakers act on the storm. Other futures are due at the tick of the
/// storm.
fn scene() -> impl Strategy<Value = Vec<Step>> {
    let soon = prop_oneof![
        2 => (0..300_u32).prop_map(|ticks| Moment::In(Span::Ticks(ticks))),
        1 => (0..3_u32, -1..=1_i64).prop_map(|(level, off)| Moment::Edge(level, 0, off)),
    ];
    let size = prop_oneof![3 => 1..20_usize, 2 => 100..500_usize];
    let guest = guest(Some(act(0, true)));
    let storm = (size, soon, 1..60_usize, guest.clone())
        .prop_map(|(size, at, every, guest)| Act::Storm(size, at, every, guest));
    let others = put(Just(Moment::Same).boxed(), guest);
    let then = prop_oneof![
        2 => (0..600_u32, thread())
            .prop_map(|(ticks, thread)| vec![Step::Run(Span::Ticks(ticks), thread)]),
        1 => (thread(), span()).prop_map(|(thread, span)| {
            vec![Step::Do(thread, Act::Pass(span)), Step::PollDriver(thread)]
        }),
    ];
    (thread(), storm, vec(others, 0..6), then).prop_map(|(thread, storm, others, then)| {
        let acts = std::iter::once(storm).chain(others);
        let acts = acts.map(|act| Step::Do(thread, act));
        acts.chain(then).collect()
    })
}

pub(super) fn program() -> impl Strategy<Value = Program> {
    let tick = prop_oneof![
        4 => Just(DEFAULT_TICK),
        2 => Just(Duration::from_millis(1)),
        1 => Just(Duration::from_nanos(7)),
        1 => Just(Duration::from_secs(1)),
    ];
    let first = || put(moment().boxed(), Just(Guest::default()).boxed());
    let first = || (thread(), first()).prop_map(|(thread, put)| vec![Step::Do(thread, put)]);
    let next = prop_oneof![
        16 => step().prop_map(|step| vec![step]),
        1 => scene(),
        1 => first(),
    ];
    let steps = (vec(first(), 0..4), vec(next, 1..30));
    let end = option::of(thread());
    (1..5_usize, tick, any::<[bool; 2]>(), steps, end).prop_map(
        |(shards, tick, [is_real, is_busy], (first, next), end)| Program {
            shards,
            tick,
            is_real,
            is_busy,
            steps: [first, next].concat().concat(),
            end,
        },
    )
}

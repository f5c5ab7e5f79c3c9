//! The type of a program, and the functions that choose random programs.

use std::{fmt, time::Duration};

use proptest::{collection::vec, option, prelude::*};

/// A program: the timer's parameters and the steps.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) shards: usize,
    pub(super) tick: Duration,
    pub(super) max_pending: Option<usize>,
    /// Whether the timer treats the clock as a real clock, not as a paused clock.
    pub(super) is_real: bool,
    /// Whether others keep the workers busy, so that a turn may wake few tasks before they are late.
    pub(super) is_busy: bool,
    pub(super) steps: Vec<Step>,
    pub(super) end: End,
}

/// Prints each step on one line, even if its acts contain other acts.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shards,
            tick,
            max_pending,
            is_real,
            is_busy,
            ..
        } = self;
        writeln!(
            f,
            "{shards} shards, {tick:?}, {max_pending:?} pending, real: {is_real}, \
             busy: {is_busy}"
        )?;
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{number}: {step:?}")?;
        }
        write!(f, "{:?}", self.end)
    }
}

/// One step. The oracle checks everything after each step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Do(Thread, Act),
    /// Time passes and nothing else happens, as if all threads were suspended.
    Pass(Span),
    /// Time passes. The alarm is exact, and the driver is polled whenever it is woken.
    Run(Span, Thread),
    /// The alarm goes off this many times, on time or not. The driver is not polled.
    Ring(u8),
    /// The alarm loses the instant for which it was set.
    Forget,
    /// Sets whether the alarm is deaf. A deaf alarm that is polled late does not notice that its
    /// instant has passed.
    Deaf(bool),
    /// The driver is polled until it parks, even if it was not woken.
    Drive(Thread),
    /// The driver is polled once, even if it was not woken.
    PollDriver(Thread),
    /// The runtime drops the driver.
    DropDriver,
}

/// The end of a program.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Shutdown,
    DriverDropped,
    /// The program drops every handle of the timer.
    LetGo,
}

/// The thread that performs an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thread {
    /// A worker of the runtime.
    Worker,
    /// A thread that is not a worker. It belongs to the shard with this number.
    Other(usize),
}

/// An act that a program can perform at any time, even within a waker.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Puts a new future into a place, and drops the old future.
    Put(Place, What, Moment),
    /// Polls the future in a place, with a new waker or with the registered waker.
    Poll(Place, Option<Guest>),
    Reset(Place, Moment),
    Drop(Place),
    /// Makes and polls several sleeps that have one deadline. The first number is the number of
    /// sleeps. If the second number is `n`, every `n`-th sleep gets a waker with the acts of the
    /// `Guest`.
    Crowd(usize, Moment, usize, Guest),
    /// Polls every `n`-th sleep of the crowd with a waker that has the acts of the `Guest`.
    PollCrowd(usize, Guest),
    ResetCrowd(usize, Moment),
    DropCrowd(usize),
    /// Schedules a task. If the flag is true, the task is bare. Otherwise, it holds a value that
    /// counts its drops.
    Schedule(Moment, bool),
    /// Schedules a periodic task with this delay.
    Repeat(Moment, Duration),
    /// Cancels a task.
    Cancel(usize),
    Metrics,
    Shutdown,
    /// Lets time pass.
    Stall(Span),
}

/// The number of places for single futures. The crowd has its own places.
pub(super) const PLACES: usize = 6;

pub(super) type Place = usize;

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

/// A duration.
#[derive(Clone, Copy, Debug)]
pub(super) enum Span {
    Nanos(u64),
    Ticks(u64),
    Days(u32),
    Max,
}

impl Span {
    pub(super) fn duration(self, tick: Duration) -> Duration {
        match self {
            Self::Nanos(nanos) => Duration::from_nanos(nanos),
            Self::Ticks(ticks) => {
                Duration::from_nanos((tick.as_nanos() as u64).saturating_mul(ticks))
            }
            Self::Days(days) => Duration::from_secs(u64::from(days) * 86_400),
            Self::Max => Duration::MAX,
        }
    }
}

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    In(Span),
    Ago(Span),
    Start,
    /// An instant near the start of a slot. The numbers are the level of the slot, the number of
    /// slots ahead, and the offset in nanoseconds.
    Edge(u32, u64, i64),
    /// The same deadline as before.
    Same,
}

fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(0),
        2 => 1..20_000_u64,
        2 => (1..20_u64).prop_map(|millis| millis * 1_000_000),
        1 => 0..20_000_000_u64,
        1 => 0..30_000_000_000_u64,
    ]
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        3 => nanos().prop_map(Span::Nanos),
        4 => (0..8_u64).prop_map(Span::Ticks),
        3 => (0..300_u64).prop_map(Span::Ticks),
        1 => (0..20_000_u64).prop_map(Span::Ticks),
        1 => (1..20_000_u32).prop_map(Span::Days),
    ]
}

fn moment() -> impl Strategy<Value = Moment> {
    prop_oneof![
        8 => span().prop_map(Moment::In),
        1 => span().prop_map(Moment::Ago),
        1 => Just(Moment::Start),
        1 => Just(Moment::In(Span::Max)),
        2 => (0..6_u32, 0..4_u64, -2..=2_i64)
            .prop_map(|(level, slots, off)| Moment::Edge(level, slots, off)),
        2 => Just(Moment::Same),
    ]
}

fn thread() -> impl Strategy<Value = Thread> {
    prop_oneof![
        1 => Just(Thread::Worker),
        1 => (0..4_usize).prop_map(Thread::Other),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    0..PLACES
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        6 => Just(What::Sleep),
        1 => Just(What::Timeout),
        1 => (1..50_u64).prop_map(|millis| What::Interval(Duration::from_millis(millis))),
    ]
}

/// Chooses an act. `guest` chooses what the wakers of the act do.
fn act_with(guest: BoxedStrategy<Guest>) -> BoxedStrategy<Act> {
    let crowd = prop_oneof![6 => 1..40_usize, 1 => 100..400_usize];
    let sleeps = prop_oneof![
        4 => (place(), what(), moment()).prop_map(|(place, what, at)| Act::Put(place, what, at)),
        8 => (place(), option::weighted(0.8, guest.clone()))
            .prop_map(|(place, guest)| Act::Poll(place, guest)),
        4 => (place(), moment()).prop_map(|(place, at)| Act::Reset(place, at)),
        2 => place().prop_map(Act::Drop),
    ];
    let crowds = prop_oneof![
        3 => (crowd, moment(), 1..60_usize, guest.clone())
            .prop_map(|(number, at, every, guest)| Act::Crowd(number, at, every, guest)),
        1 => (1..5_usize, guest).prop_map(|(every, guest)| Act::PollCrowd(every, guest)),
        1 => (1..5_usize, moment()).prop_map(|(every, at)| Act::ResetCrowd(every, at)),
        1 => (1..5_usize).prop_map(Act::DropCrowd),
    ];
    let tasks = prop_oneof![
        3 => (moment(), any::<bool>()).prop_map(|(at, bare)| Act::Schedule(at, bare)),
        1 => (moment(), 1..50_000_u64)
            .prop_map(|(at, micros)| Act::Repeat(at, Duration::from_micros(micros))),
        2 => (0..8_usize).prop_map(Act::Cancel),
    ];
    let others = prop_oneof![
        4 => Just(Act::Metrics),
        1 => Just(Act::Shutdown),
        4 => span().prop_map(Act::Stall),
    ];
    prop_oneof![
        12 => sleeps.boxed(),
        3 => crowds.boxed(),
        4 => tasks.boxed(),
        1 => others.boxed(),
    ]
    .boxed()
}

fn guest_with(does: BoxedStrategy<Does>) -> BoxedStrategy<Guest> {
    let when = prop_oneof![
        4 => Just(When::Wake),
        1 => Just(When::Clone),
        1 => Just(When::Drop),
    ];
    (when, does)
        .prop_map(|(on, does)| Guest { on, does })
        .boxed()
}

/// Chooses an act whose wakers may act too. Such acts are nested at most `depth` times.
fn act(depth: u32) -> BoxedStrategy<Act> {
    let plain = prop_oneof![3 => Just(Does::Nothing), 1 => Just(Does::Panics)];
    if depth == 0 {
        return act_with(guest_with(plain.boxed()));
    }
    let acts = || vec(act(depth - 1), 1..4);
    let does = prop_oneof![
        3 => plain,
        2 => acts().prop_map(Does::Acts),
        1 => ((0..4_usize), acts()).prop_map(|(thread, acts)| Does::Blocks(thread, acts)),
    ];
    act_with(guest_with(does.boxed()))
}

fn step() -> BoxedStrategy<Step> {
    let happens = prop_oneof![
        3 => span().prop_map(Step::Pass),
        5 => (span(), thread()).prop_map(|(span, thread)| Step::Run(span, thread)),
        2 => (1..3_u8).prop_map(Step::Ring),
        1 => Just(Step::Forget),
        1 => any::<bool>().prop_map(Step::Deaf),
        4 => thread().prop_map(Step::Drive),
        2 => thread().prop_map(Step::PollDriver),
    ];
    prop_oneof![
        240 => (thread(), act(2)).prop_map(|(thread, act)| Step::Do(thread, act)),
        120 => happens.boxed(),
        1 => Just(Step::DropDriver),
    ]
    .boxed()
}

/// Chooses an act for a waker of a crowd. The act changes the crowd or other due entries while the
/// driver wakes the crowd.
fn amid() -> BoxedStrategy<Act> {
    let plain = || prop_oneof![3 => Just(Does::Nothing), 1 => Just(Does::Panics)].boxed();
    let later = || prop_oneof![1 => Just(Moment::Same), 2 => moment()];
    prop_oneof![
        3 => (1..200_usize, later(), 1..9_usize, guest_with(plain()))
            .prop_map(|(number, at, every, guest)| Act::Crowd(number, at, every, guest)),
        3 => (1..5_usize, later()).prop_map(|(every, at)| Act::ResetCrowd(every, at)),
        2 => (1..5_usize).prop_map(Act::DropCrowd),
        2 => (1..5_usize, guest_with(plain()))
            .prop_map(|(every, guest)| Act::PollCrowd(every, guest)),
        3 => (0..8_usize).prop_map(Act::Cancel),
        2 => (later(), any::<bool>()).prop_map(|(at, bare)| Act::Schedule(at, bare)),
        1 => Just(Act::Shutdown),
        1 => span().prop_map(Act::Stall),
        5 => act(0),
    ]
    .boxed()
}

/// Chooses a crowd that is due soon. Some of its wakers act on the crowd. Tasks and other futures
/// are due at the tick of the crowd.
fn scene() -> impl Strategy<Value = Vec<Step>> {
    let acts = || vec(amid(), 1..4);
    let does = prop_oneof![
        3 => acts().prop_map(Does::Acts),
        1 => ((0..4_usize), acts()).prop_map(|(thread, acts)| Does::Blocks(thread, acts)),
        1 => Just(Does::Panics),
    ];
    let soon = prop_oneof![
        2 => (0..300_u64).prop_map(|ticks| Moment::In(Span::Ticks(ticks))),
        1 => (0..3_u32, -1..=1_i64).prop_map(|(level, off)| Moment::Edge(level, 0, off)),
    ];
    let number = prop_oneof![3 => 1..20_usize, 2 => 100..500_usize];
    let others = prop_oneof![
        2 => any::<bool>().prop_map(|bare| Act::Schedule(Moment::Same, bare)),
        1 => (1..20_u64)
            .prop_map(|millis| Act::Repeat(Moment::Same, Duration::from_millis(millis))),
        3 => (place(), what()).prop_map(|(place, what)| Act::Put(place, what, Moment::Same)),
        3 => (place(), option::of(act_guest())).prop_map(|(place, guest)| Act::Poll(place, guest)),
    ];
    let then = prop_oneof![
        2 => (0..600_u64, thread())
            .prop_map(|(ticks, thread)| vec![Step::Run(Span::Ticks(ticks), thread)]),
        1 => (thread(), span())
            .prop_map(|(thread, span)| vec![Step::Pass(span), Step::PollDriver(thread)]),
    ];
    let crowd = (number, soon, 1..60_usize, guest_with(does.boxed()));
    let crowd = crowd.prop_map(|(number, at, every, guest)| Act::Crowd(number, at, every, guest));
    (
        thread(),
        crowd.boxed(),
        vec(others.boxed(), 0..6),
        then.boxed(),
    )
        .prop_map(|(thread, crowd, others, then)| {
            let acts = std::iter::once(crowd).chain(others);
            let acts = acts.map(|act| Step::Do(thread, act));
            acts.chain(then).collect()
        })
}

/// Chooses a waker that acts. If its acts make other wakers, those wakers only panic or do nothing.
fn act_guest() -> BoxedStrategy<Guest> {
    guest_with(vec(amid(), 1..3).prop_map(Does::Acts).boxed())
}

/// Chooses a future that is put into a place and polled.
fn registered() -> impl Strategy<Value = Vec<Step>> {
    (thread(), place(), what(), moment()).prop_map(|(thread, place, what, at)| {
        let put = Act::Put(place, what, at);
        let poll = Act::Poll(place, Some(Guest::default()));
        vec![Step::Do(thread, put), Step::Do(thread, poll)]
    })
}

pub(super) fn program() -> impl Strategy<Value = Program> {
    let tick = prop_oneof![
        4 => Just(crate::driver::clock::DEFAULT_TICK),
        2 => Just(Duration::from_millis(1)),
        1 => Just(Duration::from_nanos(7)),
        1 => Just(Duration::from_secs(1)),
    ];
    let end = prop_oneof![
        Just(End::Shutdown),
        Just(End::DriverDropped),
        Just(End::LetGo),
    ];
    let max_pending = option::weighted(0.3, 0..40_usize);
    let first = vec(registered(), 0..4).prop_map(|steps| steps.concat());
    let next = prop_oneof![
        16 => step().prop_map(|step| vec![step]),
        1 => scene(),
        1 => registered(),
    ];
    let steps = (first, vec(next, 1..30)).prop_map(|(mut steps, rest)| {
        steps.extend(rest.concat());
        steps
    });
    let flags = any::<[bool; 2]>();
    (1..5_usize, tick, max_pending, flags, steps, end).prop_map(
        |(shards, tick, max_pending, [is_real, is_busy], steps, end)| Program {
            shards,
            tick,
            max_pending,
            is_real,
            is_busy,
            steps,
            end,
        },
    )
}

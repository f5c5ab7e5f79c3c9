//! Programs: what happens to a timer, and how it is chosen.

use std::{fmt, time::Duration};

use proptest::{collection::vec, option, prelude::*};

/// What is simulated.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) shards: usize,
    pub(super) tick: Duration,
    pub(super) max_pending: Option<usize>,
    /// Whether the clock passes for one that is not paused.
    pub(super) is_real: bool,
    pub(super) steps: Vec<Step>,
    pub(super) end: End,
}

/// A step a line, however deep it is.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shards,
            tick,
            max_pending,
            is_real,
            ..
        } = self;
        writeln!(
            f,
            "{shards} shards, {tick:?}, {max_pending:?} pending, real: {is_real}"
        )?;
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{number}: {step:?}")?;
        }
        write!(f, "{:?}", self.end)
    }
}

/// One step, after which the oracle looks at everything.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Do(Thread, Act),
    /// Time passes and nothing else happens, as if all threads stood still.
    Pass(Span),
    /// Time passes while the driver is polled whenever it is woken and the alarm is exact.
    Run(Span, Thread),
    /// The alarm rings that often, whether or not it is time; nobody polls the driver.
    Ring(u8),
    /// The alarm forgets what it was set for.
    Forget,
    /// The alarm is deaf from now on, or not: if it is polled late, it does not notice.
    Deaf(bool),
    /// The driver is polled until it parks, even if nobody has woken it.
    Drive(Thread),
    /// The driver is polled once, even if nobody has woken it.
    PollDriver(Thread),
    /// The runtime drops the driver.
    DropDriver,
}

/// How a program ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Shutdown,
    DriverDropped,
    /// Nobody can reach the timer any more.
    LetGo,
}

/// The thread on which something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thread {
    /// A worker of the runtime.
    Worker,
    /// One that is no worker, of the shard of that number.
    Other(usize),
}

/// What can be done at any time, by a waker too.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Puts a new future into a place and drops what is there.
    Put(Place, What, Moment),
    /// Polls what is in a place, with a new waker or the one that is registered.
    Poll(Place, Option<Guest>),
    Reset(Place, Moment),
    Drop(Place),
    /// Makes that many sleeps for one deadline and polls them; each so-many'th has such a waker.
    Crowd(usize, Moment, usize, Guest),
    /// Polls each so-many'th of the crowd with such a waker.
    PollCrowd(usize, Guest),
    ResetCrowd(usize, Moment),
    DropCrowd(usize),
    /// A task, which holds something that has a drop, or is bare.
    Schedule(Moment, bool),
    /// A task that runs again and again, with such a delay.
    Repeat(Moment, Duration),
    /// Cancels one of the tasks.
    Cancel(usize),
    Metrics,
    Shutdown,
    /// Time passes.
    Stall(Span),
}

/// A future is in one of that many places; a crowd is elsewhere.
pub(super) const PLACES: usize = 6;

pub(super) type Place = usize;

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Sleep,
    Timeout,
    Interval(Duration),
}

/// What a waker does, once.
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
    /// When a clone of it is dropped.
    Drop,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Does {
    #[default]
    Nothing,
    Panics,
    Acts(Vec<Act>),
    /// Has another thread do it, and waits until it has.
    Blocks(usize, Vec<Act>),
}

/// How long something takes.
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
    /// So many nanoseconds from where the next slot but so many of a level begins.
    Edge(u32, u64, i64),
    /// The deadline of the last one again.
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

/// Acts whose wakers do what `does` says.
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

/// Acts, and what the wakers among them do, to that depth.
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

/// What is done to a crowd and to what is due with it, as its first are woken.
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

/// A crowd that is due soon, with wakers of which some do something to it, and with tasks and
/// others that are due at the same tick.
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

/// A waker that acts, but none of whose acts has a waker that does.
fn act_guest() -> BoxedStrategy<Guest> {
    guest_with(vec(amid(), 1..3).prop_map(Does::Acts).boxed())
}

/// Puts a future into a place and polls it.
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
    (1..5_usize, tick, max_pending, any::<bool>(), steps, end).prop_map(
        |(shards, tick, max_pending, is_real, steps, end)| Program {
            shards,
            tick,
            max_pending,
            is_real,
            steps,
            end,
        },
    )
}

//! Compares all limits of a stream with a simple model that counts milliseconds.
//!
//! The model has no deadlines, alarms or tasks. The stream is used by one task or by several tasks.

use proptest::prelude::*;
use tokio::time::sleep;

use super::*;

/// The end of the timetables, in milliseconds.
const END: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Moved(usize),
    Timeout,
    Idle,
    Rate,
}

/// An even number of milliseconds.
fn even(most: u64) -> impl Strategy<Value = u64> {
    (0..=most / 2).prop_map(|half| half * 2)
}

/// An even number of milliseconds that is not 0.
fn limit(most: u64) -> impl Strategy<Value = u64> {
    (1..=most / 2).prop_map(|half| half * 2)
}

fn rate() -> impl Strategy<Value = MinRate> {
    let rate = (1..20_usize, limit(80), any::<bool>());
    rate.prop_map(|(bytes, window, silence)| {
        let rate = MinRate::new(bytes, ms(window));
        if silence { rate.allow_silence() } else { rate }
    })
}

/// The window of a rate.
struct Window {
    rate: MinRate,
    open: bool,
    waited: u64,
    moved: usize,
}

impl Window {
    fn new(rate: MinRate) -> Self {
        Self {
            rate,
            open: rate != rate.allow_silence(),
            waited: 0,
            moved: 0,
        }
    }

    fn close(&mut self) {
        *self = Self::new(self.rate);
    }

    /// Counts a millisecond in which an operation waits.
    fn wait(&mut self) {
        self.waited += u64::from(self.open);
    }

    /// Returns whether an operation fails that has waited for `waits` milliseconds.
    fn fails(&self, waits: u64) -> bool {
        let over = self.open && ms(self.waited) >= self.rate.window();
        over && (waits == 0 || self.rate != self.rate.allow_silence())
    }

    fn other_moved(&mut self) {
        if self.rate == self.rate.allow_silence() {
            self.close();
        }
    }

    fn moved(&mut self, bytes: usize) {
        self.open = true;
        self.moved += bytes;
        if self.moved >= self.rate.bytes() {
            self.close();
        }
    }
}

/// The events in one direction, in milliseconds.
#[derive(Clone, Debug)]
struct Lane {
    /// The start of the first operation.
    start: u64,
    timeout: Option<u64>,
    rate: Option<MinRate>,
    /// The times at which bytes become ready, and their numbers. The last number is 0.
    bytes: Vec<(u64, usize)>,
    /// The most bytes that one operation moves.
    most: usize,
    /// The pauses of the application after the operations, repeated in a cycle.
    thoughts: Vec<u64>,
}

/// The tasks that use the stream.
#[derive(Clone, Copy, Debug)]
enum Tasks {
    One,
    OneForEachDirection,
    OneForEachOperation,
}

/// The events of a stream.
#[derive(Clone, Debug)]
struct Story {
    reads: Lane,
    writes: Lane,
    idle: Option<u64>,
    tasks: Tasks,
}

/// The time and the outcome of each operation.
type Log = Vec<(u64, Outcome)>;

/// All times are even, apart from an odd `start`. So few events of two lanes coincide.
fn lane(start: u64) -> impl Strategy<Value = Lane> {
    let gaps = collection::vec((even(80), 1..8_usize), 0..40);
    let bytes = gaps.prop_map(move |gaps| {
        let mut time = start;
        let times = gaps.into_iter().map(|(gap, bytes)| {
            time += gap;
            (time, bytes)
        });
        let mut bytes: Vec<_> = times.take_while(|&(time, _)| time < END).collect();
        bytes.push((END + start, 0));
        bytes
    });
    let limits = (option::of(limit(60)), option::of(rate()));
    let course = (bytes, 1..6_usize, collection::vec(even(30), 1..5));
    (limits, course).prop_map(move |((timeout, rate), (bytes, most, thoughts))| Lane {
        start,
        timeout,
        rate,
        bytes,
        most,
        thoughts,
    })
}

fn story() -> impl Strategy<Value = Story> {
    let tasks = prop_oneof![
        Just(Tasks::One),
        Just(Tasks::OneForEachDirection),
        Just(Tasks::OneForEachOperation),
    ];
    let idle = option::of(limit(60));
    (lane(0), lane(1), idle, tasks).prop_map(|(reads, writes, idle, tasks)| Story {
        reads,
        writes,
        idle,
        tasks,
    })
}

/// The model of one direction.
struct Count<'a> {
    lane: &'a Lane,
    idle: Option<u64>,
    window: Window,
    bytes: Vec<(u64, usize)>,
    thoughts: Cycle<slice::Iter<'a, u64>>,
    /// The rest of the current pause, or 0 while an operation waits. `None` at the end.
    thinks: Option<u64>,
    waits: u64,
    idles: u64,
    log: Log,
}

impl<'a> Count<'a> {
    fn new(lane: &'a Lane, idle: Option<u64>) -> Self {
        let mut bytes = lane.bytes.clone();
        bytes.reverse();
        Self {
            lane,
            idle,
            // No operation exceeds the rate that stands for none.
            window: Window::new(lane.rate.unwrap_or(MinRate::new(1, Duration::MAX))),
            bytes,
            thoughts: lane.thoughts.iter().cycle(),
            thinks: Some(lane.start),
            waits: 0,
            idles: 0,
            log: Log::new(),
        }
    }

    fn a_millisecond_passes(&mut self) {
        match &mut self.thinks {
            Some(0) => {
                self.waits += 1;
                self.idles += 1;
                self.window.wait();
            }
            Some(thinks) => *thinks -= 1,
            None => {}
        }
    }

    /// Returns the outcome of the waiting operation if it ends now.
    fn outcome(&self, time: u64) -> Option<Outcome> {
        if self.thinks != Some(0) {
            return None;
        }
        let &(at, there) = self.bytes.last()?;
        if at <= time {
            Some(Outcome::Moved(there.min(self.lane.most)))
        } else if self.lane.timeout == Some(self.waits) {
            Some(Outcome::Timeout)
        } else if self.idle == Some(self.idles) {
            Some(Outcome::Idle)
        } else {
            (self.window.fails(self.waits)).then_some(Outcome::Rate)
        }
    }

    /// Ends operations until an operation waits or the application pauses. Returns whether bytes have moved, or
    /// `None` if nothing happens now.
    fn act(&mut self, time: u64) -> Option<bool> {
        let begins = self.thinks == Some(0) && self.waits == 0;
        let mut has_moved = begins.then_some(false);
        while let Some(outcome) = self.outcome(time) {
            self.log.push((time, outcome));
            let mut moves = false;
            self.thinks = self.thoughts.next().copied();
            (self.waits, self.idles) = (0, 0);
            match outcome {
                Outcome::Moved(0) => self.thinks = None,
                Outcome::Moved(moved) => {
                    moves = true;
                    let (_, there) = self.bytes.last_mut()?;
                    *there -= moved;
                    if *there == 0 {
                        self.bytes.pop();
                    }
                    self.window.moved(moved);
                }
                Outcome::Rate => self.window.close(),
                Outcome::Timeout | Outcome::Idle => {}
            }
            has_moved = Some(has_moved == Some(true) || moves);
        }
        has_moved
    }

    fn other_moved(&mut self) {
        self.window.other_moved();
        self.idles = 0;
    }
}

impl Story {
    /// Returns the log of each direction. Returns `None` if it depends on the order of two events in one millisecond.
    fn expected(&self) -> Option<(Log, Log)> {
        let mut reads = Count::new(&self.reads, self.idle);
        let mut writes = Count::new(&self.writes, self.idle);
        let mut time = 0;
        while reads.thinks.is_some() || writes.thinks.is_some() {
            match (reads.act(time), writes.act(time)) {
                (Some(_), Some(_)) => return None,
                (Some(true), None) => writes.other_moved(),
                (None, Some(true)) => reads.other_moved(),
                _ => {}
            }
            time += 1;
            reads.a_millisecond_passes();
            writes.a_millisecond_passes();
        }
        Some((reads.log, writes.log))
    }

    async fn actual(&self) -> (Log, Log) {
        let start = Instant::now();
        let timetable = |lane: &Lane| -> Vec<_> {
            let bytes = lane.bytes.iter();
            bytes.map(|&(at, bytes)| (ms(at), bytes)).collect()
        };
        let peer = Scripted::new().reads(timetable(&self.reads));
        let mut stream = TimeoutStream::new(peer.writes(timetable(&self.writes)));
        let limits = Limits::new();
        let limits = set(limits, self.reads.timeout.map(ms), Limits::read_timeout);
        let limits = set(limits, self.writes.timeout.map(ms), Limits::write_timeout);
        let limits = set(limits, self.idle.map(ms), Limits::idle_timeout);
        let limits = set(limits, self.reads.rate, Limits::min_read_rate);
        let limits = set(limits, self.writes.rate, Limits::min_write_rate);
        stream.set_limits(limits);
        assert_eq!(stream.limits(), limits);
        let (reader, writer) = split(stream);

        let Self { reads, writes, .. } = self.clone();
        let reads = operations(start, reads, self.tasks, reader, read);
        let writes = operations(start, writes, self.tasks, writer, write);
        match self.tasks {
            Tasks::One => tokio::join!(reads, writes),
            Tasks::OneForEachDirection | Tasks::OneForEachOperation => {
                let (reads, writes) = (tokio::spawn(reads), tokio::spawn(writes));
                (reads.await.unwrap(), writes.await.unwrap())
            }
        }
    }
}

type Stream = TimeoutStream<Scripted>;

async fn read(mut reader: ReadHalf<Stream>, most: usize) -> (ReadHalf<Stream>, io::Result<usize>) {
    let result = reader.read(&mut vec![0; most]).await;
    (reader, result)
}

async fn write(
    mut writer: WriteHalf<Stream>,
    most: usize,
) -> (WriteHalf<Stream>, io::Result<usize>) {
    let result = writer.write(&vec![0; most]).await;
    (writer, result)
}

/// Performs the operations of a direction.
async fn operations<H, O>(
    start: Instant,
    lane: Lane,
    tasks: Tasks,
    mut half: H,
    operation: impl Fn(H, usize) -> O,
) -> Log
where
    H: Send + 'static,
    O: Future<Output = (H, io::Result<usize>)> + Send + 'static,
{
    let mut log = Log::new();
    // A sleep of 0 ms would take a millisecond.
    if lane.start > 0 {
        sleep(ms(lane.start)).await;
    }
    for &thought in lane.thoughts.iter().cycle() {
        let operation = operation(half, lane.most);
        let result;
        (half, result) = match tasks {
            Tasks::One | Tasks::OneForEachDirection => operation.await,
            Tasks::OneForEachOperation => tokio::spawn(operation).await.unwrap(),
        };
        let (time, outcome) = (start.elapsed(), outcome(result));
        assert_eq!(time.subsec_nanos() % 1_000_000, 0);
        log.push((time.as_millis() as u64, outcome));
        if outcome == Outcome::Moved(0) {
            break;
        }
        if thought > 0 {
            sleep(ms(thought)).await;
        }
    }
    log
}

fn outcome(result: io::Result<usize>) -> Outcome {
    match result {
        Ok(bytes) => Outcome::Moved(bytes),
        Err(error) => match error.downcast().unwrap() {
            LimitExceeded::ReadTimeout(_) | LimitExceeded::WriteTimeout(_) => Outcome::Timeout,
            LimitExceeded::MinReadRate(_) | LimitExceeded::MinWriteRate(_) => Outcome::Rate,
            LimitExceeded::IdleTimeout(_) => Outcome::Idle,
            other => panic!("{other:?}"),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        max_global_rejects: 1_000_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn limits_are_exceeded_when_a_count_of_milliseconds_says_so(story in story()) {
        let expected = story.expected();
        prop_assume!(expected.is_some());
        let actual = paused().block_on(story.actual());
        prop_assert_eq!(actual, expected.unwrap());
    }
}

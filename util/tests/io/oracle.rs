//! Compares all limits with a simple model that counts milliseconds and has no deadlines.

use std::{collections::BTreeSet, io};

use proptest::{collection, option, prelude::*};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, split},
    time::{Instant, sleep, sleep_until},
};
use tokio_wheel_util::io::{LimitExceeded, Limits, MinRate, TimeoutStream};

use crate::{
    script::Scripted,
    support::{ms, paused},
};

/// The end of the timetables, in milliseconds.
pub(crate) const END: u64 = 1_000;

/// The events in one direction of a stream, in milliseconds from its creation.
#[derive(Clone, Debug)]
struct Story {
    /// Whether the direction is reading. Otherwise it is writing.
    reads: bool,
    timeout: Option<u64>,
    idle: Option<u64>,
    rate: Option<Rate>,
    /// The times at which bytes become ready, and their numbers.
    bytes: Vec<(u64, usize)>,
    /// The most bytes that one operation moves.
    most: usize,
    /// The pauses of the application after the operations, repeated in a cycle.
    thoughts: Vec<u64>,
    /// The times at which a byte moves in the other direction.
    other: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) bytes: usize,
    pub(crate) window: u64,
    pub(crate) silence: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Moved(usize),
    Timeout,
    Idle,
    Rate,
}

/// An even number of milliseconds.
pub(crate) fn even(most: u64) -> impl Strategy<Value = u64> {
    (0..=most / 2).prop_map(|half| half * 2)
}

/// An even number of milliseconds that is not 0.
pub(crate) fn limit(most: u64) -> impl Strategy<Value = u64> {
    (1..=most / 2).prop_map(|half| half * 2)
}

pub(crate) fn rate() -> impl Strategy<Value = Rate> {
    let rate = (1..20_usize, limit(80), any::<bool>());
    rate.prop_map(|(bytes, window, silence)| Rate {
        bytes,
        window,
        silence,
    })
}

fn story() -> impl Strategy<Value = Story> {
    // The other direction moves bytes at odd times, so few events coincide.
    let gaps = collection::vec((even(50), 1..8_usize), 0..60);
    let bytes = gaps.prop_map(|gaps| {
        let mut time = 0;
        let times = gaps.into_iter().map(|(gap, bytes)| {
            time += gap;
            (time, bytes)
        });
        times.take_while(|&(time, _)| time < END).collect()
    });
    let other = collection::btree_set((0..END / 2).prop_map(|half| half * 2 + 1), 0..40);
    let limits = (
        option::of(limit(60)),
        option::of(limit(60)),
        option::weighted(0.8, rate()),
    );
    let course = (bytes, 1..6_usize, collection::vec(even(30), 1..5), other);
    (any::<bool>(), limits, course).prop_map(|(reads, limits, course)| Story {
        reads,
        timeout: limits.0,
        idle: limits.1,
        rate: limits.2,
        bytes: course.0,
        most: course.1,
        thoughts: course.2,
        other: course.3,
    })
}

/// The window of a rate.
pub(crate) struct Window {
    rate: Rate,
    open: bool,
    waited: u64,
    moved: usize,
}

impl Rate {
    /// A rate that no operation exceeds.
    const UNLIMITED: Self = Self {
        bytes: 1,
        window: u64::MAX,
        silence: false,
    };

    pub(crate) fn min_rate(self) -> MinRate {
        let rate = MinRate::new(self.bytes, ms(self.window));
        if self.silence {
            rate.allow_silence()
        } else {
            rate
        }
    }
}

impl Window {
    pub(crate) fn new(rate: Option<Rate>) -> Self {
        Self::of(rate.unwrap_or(Rate::UNLIMITED))
    }

    pub(crate) fn of(rate: Rate) -> Self {
        Self {
            rate,
            open: !rate.silence,
            waited: 0,
            moved: 0,
        }
    }

    pub(crate) fn close(&mut self) {
        *self = Self::of(self.rate);
    }

    /// Counts a millisecond in which an operation waits.
    pub(crate) fn wait(&mut self) {
        self.waited += u64::from(self.open);
    }

    /// Returns whether an operation fails that has waited for `waits` milliseconds.
    pub(crate) fn fails(&self, waits: u64) -> bool {
        let over = self.open && self.waited >= self.rate.window;
        over && (waits == 0 || !self.rate.silence)
    }

    pub(crate) fn other_moved(&mut self) {
        if self.rate.silence {
            self.close();
        }
    }

    pub(crate) fn moved(&mut self, bytes: usize) {
        self.open = true;
        self.moved += bytes;
        if self.moved >= self.rate.bytes {
            self.close();
        }
    }
}

impl Story {
    /// Returns the time and the outcome of each operation. Returns `None` if they depend on the order of two events in
    /// one millisecond.
    fn expected(&self) -> Option<Vec<(u64, Outcome)>> {
        let mut window = Window::new(self.rate);
        let mut bytes = self.bytes.clone();
        bytes.push((END, 0));
        bytes.reverse();
        let mut thoughts = self.thoughts.iter().cycle();
        let mut outcomes = Vec::new();
        let mut time = 0;
        loop {
            if self.other.contains(&time) {
                return None;
            }
            let mut waits = 0;
            let mut idles = 0;
            let outcome = loop {
                let (at, there) = *bytes.last()?;
                if at <= time {
                    break Outcome::Moved(there.min(self.most));
                }
                if self.timeout == Some(waits) {
                    break Outcome::Timeout;
                }
                if self.idle == Some(idles) {
                    break Outcome::Idle;
                }
                if window.fails(waits) {
                    break Outcome::Rate;
                }
                time += 1;
                waits += 1;
                idles += 1;
                window.wait();
                if self.other.contains(&time) {
                    if self.idle == Some(idles) || window.fails(waits) {
                        return None;
                    }
                    idles = 0;
                    window.other_moved();
                }
            };
            if self.other.contains(&time) {
                return None;
            }
            outcomes.push((time, outcome));
            match outcome {
                Outcome::Moved(0) => return Some(outcomes),
                Outcome::Moved(moved) => {
                    let there = bytes.last_mut()?;
                    there.1 -= moved;
                    if there.1 == 0 {
                        bytes.pop();
                    }
                    window.moved(moved);
                }
                Outcome::Rate => window.close(),
                Outcome::Timeout | Outcome::Idle => {}
            }
            let thought = *thoughts.next()?;
            for _ in 0..thought {
                time += 1;
                if self.other.contains(&time) {
                    window.other_moved();
                }
            }
            if thought > 0 && self.other.contains(&time) {
                // Either of the two tasks may run first.
                return None;
            }
        }
    }

    async fn actual(&self) -> Vec<(u64, Outcome)> {
        let start = Instant::now();
        let mut lane: Vec<_> = (self.bytes.iter())
            .map(|&(at, bytes)| (ms(at), bytes))
            .collect();
        lane.push((ms(END), 0));
        let at_once = [(ms(0), usize::MAX)];
        let rate = self.rate.map(Rate::min_rate);

        let mut buf = vec![0; self.most];
        let other = self.other.clone();
        if self.reads {
            let peer = Scripted::new().reads(lane).writes(at_once);
            let mut stream = TimeoutStream::new(peer);
            let mut limits = Limits::new();
            limits.read_timeout = self.timeout.map(ms);
            limits.idle_timeout = self.idle.map(ms);
            limits.min_read_rate = rate;
            stream.set_limits(limits);
            let (mut reader, mut writer) = split(stream);
            tokio::spawn(async move {
                for at in other {
                    sleep_until(start + ms(at)).await;
                    writer.write_all(b"x").await.unwrap();
                }
            });
            self.outcomes(start, async || reader.read(&mut buf).await)
                .await
        } else {
            let peer = Scripted::new().writes(lane).reads(at_once);
            let mut stream = TimeoutStream::new(peer);
            let mut limits = Limits::new();
            limits.write_timeout = self.timeout.map(ms);
            limits.idle_timeout = self.idle.map(ms);
            limits.min_write_rate = rate;
            stream.set_limits(limits);
            let (mut reader, mut writer) = split(stream);
            tokio::spawn(async move {
                for at in other {
                    sleep_until(start + ms(at)).await;
                    reader.read_u8().await.unwrap();
                }
            });
            self.outcomes(start, async || writer.write(&buf).await)
                .await
        }
    }

    async fn outcomes(
        &self,
        start: Instant,
        mut operation: impl AsyncFnMut() -> io::Result<usize>,
    ) -> Vec<(u64, Outcome)> {
        let mut outcomes = Vec::new();
        for &thought in self.thoughts.iter().cycle() {
            let outcome = outcome(operation().await);
            let time = start.elapsed();
            assert_eq!(time.subsec_nanos() % 1_000_000, 0);
            outcomes.push((time.as_millis() as u64, outcome));
            if outcome == Outcome::Moved(0) {
                break;
            }
            // A sleep of 0 ms would take a millisecond.
            if thought > 0 {
                sleep(ms(thought)).await;
            }
        }
        outcomes
    }
}

pub(crate) fn outcome(result: io::Result<usize>) -> Outcome {
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
        cases: 1_000,
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

//! Runs a program and logs its events.
//!
//! Both crates leave open the order of tasks that wake at one instant. So each task has its own
//! log. Other tasks can observe when the clock advances or a child is aborted. So only the root
//! does these acts. Before each of them, it waits until the other tasks have nothing left to do at
//! the current instant.
//!
//! By design, a sleep that is reset to the past may be pending until the driver has had a turn.
//! After such a reset, the task yields to the driver. The crate's documentation describes this
//! difference.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tokio::{
    select,
    task::{JoinSet, yield_now},
};
use tokio_wheel::Instant;

use super::time;
use crate::differential::{
    Log, on_paused_clock,
    program::{Loser, Moment, PLACES, Place, ResetTo, Step, Work},
};

/// A boxed future. A task that starts tasks of its own kind needs one.
type Boxed<'a, O> = Pin<Box<dyn Future<Output = O> + Send + 'a>>;

/// The state that the tasks of a program share.
struct World {
    start: Instant,
    log: Mutex<Log>,
    /// A counter that grows with each step of a task.
    steps: AtomicUsize,
}

struct Task {
    world: Arc<World>,
    path: Vec<usize>,
    sleeps: [Option<Kept>; PLACES],
    intervals: [Option<Ticking>; PLACES],
    children: JoinSet<()>,
    spawned: usize,
}

/// A sleep in its place.
struct Kept {
    sleep: Pin<Box<time::Sleep>>,
    /// Whether the sleep was ready. It may not be polled again until it is reset.
    ready: bool,
}

struct Ticking {
    interval: time::Interval,
    /// Whether the next tick is too far for any program to wait for it.
    far: bool,
}

/// Runs a program to its end.
pub(crate) fn run(program: &[Step]) -> Result<Log, String> {
    on_paused_clock(async {
        let world = Arc::new(World {
            start: Instant::now(),
            log: Mutex::default(),
            steps: AtomicUsize::new(0),
        });
        let root = Task::new(world.clone(), Vec::new());
        root.run(program.to_vec()).await;
        let log = world.log.lock().unwrap();
        log.clone()
    })
}

impl Task {
    fn new(world: Arc<World>, path: Vec<usize>) -> Self {
        Self {
            world,
            path,
            sleeps: [const { None }; PLACES],
            intervals: [const { None }; PLACES],
            children: JoinSet::new(),
            spawned: 0,
        }
    }

    fn run(mut self, steps: Vec<Step>) -> Boxed<'static, ()> {
        Box::pin(async move {
            for (number, step) in steps.into_iter().enumerate() {
                let outcome = self.step(step.clone()).await;
                let outcome = outcome.as_deref().unwrap_or("none");
                self.note(format!("{number}: {step:?}: {outcome}"));
            }
            self.join_all().await;
            self.note("end".to_owned());
        })
    }

    fn note(&self, what: String) {
        self.world.steps.fetch_add(1, Ordering::Relaxed);
        let mut log = self.world.log.lock().unwrap();
        let entries = log.entry(self.path.clone()).or_default();
        entries.push((self.world.start.elapsed(), what));
    }

    fn at(&self, moment: Moment) -> Instant {
        moment.instant(self.world.start)
    }

    /// Returns the outcome, or `None` if the step was not possible.
    async fn step(&mut self, step: Step) -> Option<String> {
        match step {
            Step::Sleep(span) => time::sleep(span).await,
            Step::SleepUntil(at) => time::sleep_until(self.at(at)).await,
            Step::Yield => yield_now().await,
            Step::Put(place, span) => self.put(place, time::sleep(span)),
            Step::PutUntil(place, at) => self.put(place, time::sleep_until(self.at(at))),
            Step::Poll(place) => return self.poll(place).await,
            Step::Reset(place, at) => return self.reset(place, at).await,
            Step::Await(place) => return self.wait(place).await,
            Step::Drop(place) => self.sleeps[place] = None,
            Step::Select(one, loser) => return self.select(one, loser).await,
            Step::Timeout(span, work) => {
                let outcome = time::timeout(span, do_work(work)).await.ok();
                return Some(format!("{outcome:?}"));
            }
            Step::TimeoutAt(at, work) => {
                let outcome = time::timeout_at(self.at(at), do_work(work)).await.ok();
                return Some(format!("{outcome:?}"));
            }
            Step::Start(place, at, period, behavior) => {
                let mut interval = match at {
                    Some(at) => time::interval_at(self.at(at), period),
                    None => time::interval(period),
                };
                interval.set_missed_tick_behavior(behavior);
                let far = matches!(at, Some(Moment::Far));
                self.intervals[place] = Some(Ticking { interval, far });
            }
            Step::Tick(place) => return self.tick(place).await,
            Step::TickWithin(place, span) => return self.tick_within(place, span).await,
            Step::ResetInterval(place, to) => return self.reset_interval(place, to).await,
            Step::Spawn(steps) => {
                let mut path = self.path.clone();
                path.push(self.spawned);
                self.spawned += 1;
                let child = Self::new(self.world.clone(), path);
                self.children.spawn(child.run(steps));
            }
            Step::JoinAll => self.join_all().await,
            Step::Abort => {
                self.settle().await;
                self.children.abort_all();
            }
            Step::Leap(span) => {
                self.settle().await;
                time::advance(span).await;
            }
            Step::Advance(span) => {
                self.settle().await;
                time::advance(span).await;
                self.settle().await;
            }
        }
        Some(String::new())
    }

    /// Waits until the other tasks have nothing left to do at the current instant.
    async fn settle(&self) {
        let steps = || self.world.steps.load(Ordering::Relaxed);
        let mut seen = steps();
        // When the clock has moved, a task continues after three turns: of the runtime's clock, of
        // the driver, and of the task.
        let mut idle = 0;
        while idle < 8 {
            yield_now().await;
            idle = if steps() == seen { idle + 1 } else { 0 };
            seen = steps();
        }
    }

    /// Gives the driver a turn.
    async fn yield_to_driver(&self) {
        for _ in 0..4 {
            self.world.steps.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    }

    fn put(&mut self, place: Place, sleep: time::Sleep) {
        self.sleeps[place] = Some(Kept {
            sleep: Box::pin(sleep),
            ready: false,
        });
    }

    /// Returns the sleep in a place, if it may be polled.
    fn kept(&mut self, place: Place) -> Option<&mut Kept> {
        self.sleeps[place].as_mut().filter(|kept| !kept.ready)
    }

    async fn poll(&mut self, place: Place) -> Option<String> {
        Some(self.kept(place)?.poll().await)
    }

    async fn reset(&mut self, place: Place, at: Moment) -> Option<String> {
        let at = self.at(at);
        let kept = self.sleeps[place].as_mut()?;
        kept.sleep.as_mut().reset(at);
        kept.ready = false;
        let deadline = kept.sleep.deadline();
        if at <= Instant::now() {
            self.yield_to_driver().await;
        }
        let start = self.world.start;
        Some(format!("{:?}", deadline.saturating_duration_since(start)))
    }

    async fn wait(&mut self, place: Place) -> Option<String> {
        let start = self.world.start;
        let kept = self.kept(place).filter(|kept| !kept.is_far(start))?;
        Some(kept.wait().await)
    }

    async fn select(&mut self, one: Place, loser: Loser) -> Option<String> {
        let (start, other) = (self.world.start, 1 - one);
        let one_is_far = self.kept(one)?.is_far(start);
        let other_is_far = self.kept(other)?.is_far(start);
        if one_is_far && other_is_far {
            return None;
        }
        let [mut first, mut second] = self.sleeps.each_mut();
        if one > other {
            std::mem::swap(&mut first, &mut second);
        }
        let (first, second) = (first.as_mut()?, second.as_mut()?);
        let won = select! {
            biased;
            () = &mut first.sleep => {
                first.ready = true;
                one
            }
            () = &mut second.sleep => {
                second.ready = true;
                other
            }
        };
        if loser == Loser::Dropped {
            self.sleeps[one + other - won] = None;
        }
        Some(format!("{won} won"))
    }

    async fn tick(&mut self, place: Place) -> Option<String> {
        let start = self.world.start;
        let ticking = self.intervals[place].as_mut();
        let ticking = ticking.filter(|ticking| !ticking.far)?;
        Some(tick_of(ticking.interval.tick().await, start))
    }

    async fn tick_within(&mut self, place: Place, span: Duration) -> Option<String> {
        let start = self.world.start;
        let ticking = self.intervals[place].as_mut()?;
        let tick = time::timeout(span, ticking.interval.tick()).await;
        Some(tick.map_or("timeout".to_owned(), |due| tick_of(due, start)))
    }

    async fn reset_interval(&mut self, place: Place, to: ResetTo) -> Option<String> {
        let start = self.world.start;
        let Ticking { interval, far } = self.intervals[place].as_mut()?;
        *far = matches!(to, ResetTo::After(Duration::MAX) | ResetTo::At(Moment::Far));
        let is_past = match to {
            ResetTo::APeriodFromNow => false,
            ResetTo::Now => true,
            ResetTo::After(span) => span.is_zero(),
            ResetTo::At(at) => at.instant(start) <= Instant::now(),
        };
        match to {
            ResetTo::APeriodFromNow => interval.reset(),
            ResetTo::Now => interval.reset_immediately(),
            // Tokio's `reset_after` panics here.
            ResetTo::After(Duration::MAX) => interval.reset_at(Moment::Far.instant(start)),
            ResetTo::After(span) => interval.reset_after(span),
            ResetTo::At(at) => interval.reset_at(at.instant(start)),
        }
        if is_past {
            self.yield_to_driver().await;
        }
        Some(String::new())
    }

    async fn join_all(&mut self) {
        while self.children.join_next().await.is_some() {}
    }
}

impl Kept {
    /// Returns whether the moment is too far for any program to wait for it.
    fn is_far(&self, start: Instant) -> bool {
        self.sleep.deadline() > start + Duration::from_secs(20 * 365 * 86_400)
    }

    async fn poll(&mut self) -> String {
        let elapsed = self.sleep.is_elapsed();
        let ready = poll_fn(|cx| Poll::Ready(self.sleep.as_mut().poll(cx).is_ready())).await;
        self.ready = ready;
        format!("{elapsed} {ready} {}", self.sleep.is_elapsed())
    }

    async fn wait(&mut self) -> String {
        self.sleep.as_mut().await;
        self.ready = true;
        format!("{}", self.sleep.is_elapsed())
    }
}

fn tick_of(due: Instant, start: Instant) -> String {
    // The program has reset the interval to an instant before the start.
    format!(
        "{:?} {:?}",
        due.saturating_duration_since(start),
        start.saturating_duration_since(due)
    )
}

/// Does the work of a timeout, and returns the outcome of each timeout inside it.
fn do_work(work: Work) -> Boxed<'static, Vec<bool>> {
    Box::pin(async move {
        match work {
            Work::Ready => Vec::new(),
            Work::Never => std::future::pending().await,
            Work::Yields(times) => {
                for _ in 0..times {
                    yield_now().await;
                }
                Vec::new()
            }
            Work::Sleeps(span) => {
                time::sleep(span).await;
                Vec::new()
            }
            Work::Within(span, work) => {
                let within = time::timeout(span, do_work(*work));
                let inner = within.await.map(|inner| [inner, vec![true]].concat());
                inner.unwrap_or_else(|_| vec![false])
            }
        }
    })
}

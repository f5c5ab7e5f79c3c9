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
    collections::BTreeMap,
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

use super::{
    program::{Loser, Moment, PLACES, Place, ResetTo, Span, Step, Work},
    time::Time,
};

/// The path of a task: the number of the child at each generation, from the root.
type Path = Vec<usize>;

/// The events of each task, with the virtual time that had passed.
pub(crate) type Log = BTreeMap<Path, Vec<(Duration, String)>>;

/// A boxed future. A task that starts tasks of its own kind needs one.
type Boxed<'a, O> = Pin<Box<dyn Future<Output = O> + Send + 'a>>;

/// The state that the tasks of a program share.
struct World {
    start: Instant,
    log: Mutex<Log>,
    /// A counter that grows with each step of a task.
    steps: AtomicUsize,
}

struct Task<T: Time> {
    world: Arc<World>,
    path: Path,
    sleeps: [Option<Kept<T>>; PLACES],
    intervals: [Option<Ticking<T>>; PLACES],
    children: JoinSet<()>,
    spawned: usize,
}

/// A sleep in its place.
struct Kept<T: Time> {
    sleep: Pin<Box<T::Sleep>>,
    /// Whether the sleep was polled since it was made or reset. Only then, `is_elapsed` is defined.
    polled: bool,
    /// Whether the sleep was ready. It may not be polled again until it is reset.
    ready: bool,
}

struct Ticking<T: Time> {
    interval: T::Interval,
    /// Whether the next tick is too far for any program to wait for it.
    far: bool,
}

/// Runs a program to its end.
pub(crate) fn run<T: Time>(program: &[Step]) -> Result<Log, String> {
    super::run::<T, _>(async {
        let world = Arc::new(World {
            start: Instant::now(),
            log: Mutex::default(),
            steps: AtomicUsize::new(0),
        });
        Task::<T>::new(world.clone(), Path::new())
            .run(program.to_vec())
            .await;
        let log = world.log.lock().unwrap();
        log.clone()
    })
}

impl<T: Time> Task<T> {
    fn new(world: Arc<World>, path: Path) -> Self {
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

    async fn step(&mut self, step: Step) -> String {
        match step {
            Step::Sleep(span) => T::sleep(span.duration()).await,
            Step::SleepUntil(at) => T::sleep_until(self.at(at)).await,
            Step::Yield => yield_now().await,
            Step::Put(place, span) => self.put(place, T::sleep(span.duration())),
            Step::PutUntil(place, at) => self.put(place, T::sleep_until(self.at(at))),
            Step::Poll(place) => return self.poll(place).await,
            Step::Reset(place, at) => return self.reset(place, at).await,
            Step::Await(place) => return self.wait(place).await,
            Step::Drop(place) => self.sleeps[place] = None,
            Step::Select(one, other, loser) => return self.select(one, other, loser).await,
            Step::Timeout(span, work) => {
                let outcome = T::timeout(span.duration(), do_work::<T>(work)).await;
                return format!("{outcome:?}");
            }
            Step::TimeoutAt(at, work) => {
                let outcome = T::timeout_at(self.at(at), do_work::<T>(work)).await;
                return format!("{outcome:?}");
            }
            Step::Start(place, at, period, behavior) => {
                let period = period.duration();
                let mut interval = match at {
                    Some(at) => T::interval_at(self.at(at), period),
                    None => T::interval(period),
                };
                T::set_missed_tick_behavior(&mut interval, behavior);
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
            Step::Advance(span) => {
                self.settle().await;
                T::advance(span.duration()).await;
                self.settle().await;
            }
        }
        String::new()
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

    fn put(&mut self, place: Place, sleep: T::Sleep) {
        self.sleeps[place] = Some(Kept {
            sleep: Box::pin(sleep),
            polled: false,
            ready: false,
        });
    }

    /// Returns the sleep in a place, if it may be polled.
    fn kept(&mut self, place: Place) -> Option<&mut Kept<T>> {
        self.sleeps[place].as_mut().filter(|kept| !kept.ready)
    }

    async fn poll(&mut self, place: Place) -> String {
        let Some(kept) = self.kept(place) else {
            return "none".to_owned();
        };
        kept.poll().await
    }

    async fn reset(&mut self, place: Place, at: Moment) -> String {
        let at = self.at(at);
        let start = self.world.start;
        let Some(kept) = &mut self.sleeps[place] else {
            return "none".to_owned();
        };
        T::reset(kept.sleep.as_mut(), at);
        kept.polled = false;
        kept.ready = false;
        let deadline = T::deadline(&kept.sleep);
        if at <= Instant::now() {
            self.yield_to_driver().await;
        }
        format!("{:?}", deadline.saturating_duration_since(start))
    }

    async fn wait(&mut self, place: Place) -> String {
        let start = self.world.start;
        match self.kept(place) {
            Some(kept) if !kept.is_far(start) => kept.wait().await,
            _ => "none".to_owned(),
        }
    }

    async fn select(&mut self, one: Place, other: Place, loser: Loser) -> String {
        let start = self.world.start;
        let mut is_far = |place| self.kept(place).map(|kept| kept.is_far(start));
        match (is_far(one), is_far(other)) {
            (Some(one_is_far), Some(other_is_far)) if !(one_is_far && other_is_far) => {}
            _ => return "none".to_owned(),
        }
        let [first, second] = &mut self.sleeps;
        let (first, second) = if one < other {
            (first, second)
        } else {
            (second, first)
        };
        let (Some(first), Some(second)) = (first, second) else {
            return "none".to_owned();
        };
        first.polled = true;
        let won = select! {
            biased;
            () = &mut first.sleep => {
                first.ready = true;
                one
            }
            () = &mut second.sleep => {
                second.polled = true;
                second.ready = true;
                other
            }
        };
        if loser == Loser::Dropped {
            self.sleeps[one + other - won] = None;
        }
        format!("{won} won")
    }

    async fn tick(&mut self, place: Place) -> String {
        let start = self.world.start;
        match &mut self.intervals[place] {
            Some(ticking) if !ticking.far => {
                let due = T::tick(&mut ticking.interval).await;
                tick_of(due, start)
            }
            _ => "none".to_owned(),
        }
    }

    async fn tick_within(&mut self, place: Place, span: Span) -> String {
        let start = self.world.start;
        let Some(ticking) = &mut self.intervals[place] else {
            return "none".to_owned();
        };
        match T::timeout(span.duration(), T::tick(&mut ticking.interval)).await {
            Some(due) => tick_of(due, start),
            None => "timeout".to_owned(),
        }
    }

    async fn reset_interval(&mut self, place: Place, to: ResetTo) -> String {
        let start = self.world.start;
        let Some(Ticking { interval, far }) = &mut self.intervals[place] else {
            return "none".to_owned();
        };
        *far = matches!(to, ResetTo::After(Span::Max) | ResetTo::At(Moment::Far));
        let is_past = match to {
            ResetTo::APeriodFromNow => false,
            ResetTo::Now => true,
            ResetTo::After(span) => span.duration().is_zero(),
            ResetTo::At(at) => at.instant(start) <= Instant::now(),
        };
        match to {
            ResetTo::APeriodFromNow => T::reset_interval(interval),
            ResetTo::Now => T::reset_immediately(interval),
            // Tokio's `reset_after` panics here.
            ResetTo::After(Span::Max) => T::reset_at(interval, Moment::Far.instant(start)),
            ResetTo::After(span) => T::reset_after(interval, span.duration()),
            ResetTo::At(at) => T::reset_at(interval, at.instant(start)),
        }
        if is_past {
            self.yield_to_driver().await;
        }
        String::new()
    }

    async fn join_all(&mut self) {
        while self.children.join_next().await.is_some() {}
    }
}

impl<T: Time> Kept<T> {
    /// Returns whether the moment is too far for any program to wait for it.
    fn is_far(&self, start: Instant) -> bool {
        T::deadline(&self.sleep) > start + Duration::from_secs(20 * 365 * 86_400)
    }

    /// Polls once, and returns the part of the result that is defined.
    async fn poll(&mut self) -> String {
        let elapsed = self.polled.then(|| T::is_elapsed(&self.sleep));
        let ready = poll_fn(|cx| Poll::Ready(self.sleep.as_mut().poll(cx).is_ready())).await;
        self.polled = true;
        self.ready = ready;
        format!("{elapsed:?} {ready} {}", T::is_elapsed(&self.sleep))
    }

    async fn wait(&mut self) -> String {
        self.polled = true;
        self.sleep.as_mut().await;
        self.ready = true;
        format!("{}", T::is_elapsed(&self.sleep))
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
fn do_work<T: Time>(work: Work) -> Boxed<'static, Vec<bool>> {
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
                T::sleep(span.duration()).await;
                Vec::new()
            }
            Work::Within(span, work) => {
                match T::timeout(span.duration(), do_work::<T>(*work)).await {
                    Some(mut inner) => {
                        inner.push(true);
                        inner
                    }
                    None => vec![false],
                }
            }
        }
    })
}

//! Some seconds of load, after which everything must be as before.
//!
//! The steady runtime lives through all epochs, with far sleeps pending; the timers that it is given
//! by an epoch, other runtimes and plain threads end with it. Then nothing may be left.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    thread,
};

use fastrand::Rng;
use futures_lite::future::block_on;
use tokio::runtime::{self, Runtime};
use tokio_wheel::{Builder, Duration, Instant, Timer};

use crate::{
    crew::{Crew, Stop},
    faults,
    flicker::{flicker, shut_down},
    ledger::{self, Class},
    ops::act,
    place::{Place, Tracked, World},
    post::{Post, receive},
    saturated::{self, saturate},
    storm::{self, storm},
};

/// Sleeps that are pending all along.
const FAR: usize = 20_000;

/// Tasks that do operations, of each timer.
const ACTORS: usize = 10;

/// How long a sleep may be awaited elsewhere after the epoch. None is longer than 0.3 s.
const LAST_ARRIVAL: Duration = Duration::from_secs(10);

/// The limit of the timer that has one.
const MAX_PENDING: usize = 1_000;

/// What an epoch has that others have not.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Very many timers are due at once.
    pub has_storm: bool,
    /// Tasks that are always ready keep the workers of the steady runtime busy.
    pub is_saturated: bool,
}

/// The runtime that lives all along.
pub struct Steady {
    runtime: Runtime,
    /// Where the far sleeps are.
    place: Arc<Place>,
    /// Where the storms are.
    storms: Arc<Place>,
    far: Vec<Tracked>,
}

impl Steady {
    pub fn start() -> Self {
        saturated::prepare();
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // Its threads for blocking tasks have to be gone when memory is looked at.
            .thread_keep_alive(Duration::from_millis(100))
            .enable_all()
            .build()
            .expect("cannot start a runtime");
        let world = world("the steady runtime", Arc::default(), false);
        let place = Place::ambient(&world, Class::Ambient);
        let entered = runtime.enter();
        let storms = Timer::builder().build().expect("it is in range");
        let storms = Place::of(&world, storms, Class::Storm);
        drop(entered);
        let mut steady = Self {
            runtime,
            place,
            storms,
            far: Vec::new(),
        };
        let entered = steady.runtime.enter();
        steady
            .far
            .extend((0..FAR).map(|n| steady.place.sleep(far(n))));
        for sleep in &mut steady.far {
            assert!(sleep.is_pending(&mut Context::from_waker(Waker::noop())));
        }
        drop(entered);
        steady
    }

    /// One epoch, in which `interrupted` is asked now and then. Says whether there can be another.
    pub fn epoch(
        &mut self,
        rng: &mut Rng,
        length: Duration,
        kind: Kind,
        interrupted: &Stop,
    ) -> bool {
        let until = Instant::now() + length;
        let (stop, post) = (Stop::default(), Arc::new(Post::default()));
        // Blocked workers would make the probes late by other means.
        let blocks = rng.u8(..3) == 0 && !kind.is_saturated;
        let world = world("the steady runtime", post.clone(), blocks);
        for world in [&world, &self.storms.world] {
            (world.is_saturated).store(kind.is_saturated, Ordering::SeqCst);
        }
        let mut crew = Crew::default();

        let entered = self.runtime.enter();
        let mut places: Vec<_> = (timers().into_iter())
            .map(|(builder, class)| (builder.build().expect("it is in range"), class))
            .map(|(timer, class)| Place::of(&world, timer, class))
            .collect();
        drop(entered);
        places.push(Place::ambient(&world, Class::Ambient));
        for place in &places {
            for _ in 0..ACTORS {
                let stop = stop.clone();
                let actor = act(place.clone(), rng.u64(..), move || stop.is_raised());
                crew.task(format!("an actor on {place}"), self.runtime.spawn(actor));
            }
            let receiver = receive(place.clone(), post.open_box());
            crew.task("a receiver", self.runtime.spawn(receiver));
        }
        if kind.is_saturated {
            let ambient = places.last().expect("it was pushed");
            saturate(&self.runtime, ambient, &mut crew, &stop);
        }
        self.start_outside(&mut crew, &places, rng, &stop);
        for blocks in [false, true] {
            let (post, stop, seed) = (post.clone(), stop.clone(), rng.u64(..));
            let world = self::world("a current-thread runtime", post, blocks);
            crew.thread("a current-thread runtime", move || {
                alone(&world, seed, &stop)
            });
        }
        {
            let (post, stop, seed) = (post.clone(), stop.clone(), rng.u64(..));
            crew.thread("runtimes of short life", move || flicker(post, seed, &stop));
        }

        let mut has_ended = !kind.has_storm || {
            let size = match kind.is_saturated {
                true => storm::SATURATED_SIZE,
                false => storm::SIZE,
            };
            storm(&self.runtime, &self.storms, size, rng)
        };
        while Instant::now() < until && !interrupted.is_raised() {
            self.put_off(rng);
            thread::sleep(Duration::from_millis(50));
        }
        stop.raise();
        post.close();
        has_ended &= crew.join();
        if has_ended {
            for place in places {
                finish(&self.runtime, &place, rng);
            }
            self.look();
        }
        has_ended
    }

    /// Threads of no runtime, one of which has entered it.
    fn start_outside(&self, crew: &mut Crew, places: &[Arc<Place>], rng: &mut Rng, stop: &Stop) {
        for place in places {
            let (place, stop, seed) = (place.clone(), stop.clone(), rng.u64(..));
            let handle = (place.timer.is_none()).then(|| self.runtime.handle().clone());
            let parcels = place.world.post.open_box();
            crew.thread(format!("a thread with {place}"), move || {
                let _entered = handle.as_ref().map(runtime::Handle::enter);
                block_on(act(place.clone(), seed, || stop.is_raised()));
                block_on(receive(place, parcels));
            });
        }
    }

    /// Puts some of the far sleeps off, or brings them forward, but not near.
    fn put_off(&mut self, rng: &mut Rng) {
        let _entered = self.runtime.enter();
        for _ in 0..100 {
            let sleep = &mut self.far[rng.usize(..FAR)];
            sleep.reset(&self.place, Instant::now() + far(rng.usize(..FAR)));
            if !sleep.is_pending(&mut Context::from_waker(Waker::noop())) {
                faults::found("a far sleep was ready".into());
            }
        }
    }

    /// Looks whether nothing but the far sleeps is left of an epoch.
    fn look(&self) {
        let timer = self.runtime.block_on(async { Timer::current() });
        let pending = timer.metrics().pending();
        if pending != self.far.len() as u64 {
            faults::found(format!("{FAR} far sleeps, but {pending} are pending"));
        }
        let pending = ledger::sums().pending;
        if pending != self.far.len() as u64 {
            let some = ledger::some_pending(&self.place);
            faults::found(format!(
                "{pending} timers, not {FAR}, are not settled: {some:#?}"
            ));
        }
        ledger::shrink();
    }

    /// Drops the far sleeps, and then there must be nothing.
    pub fn end(mut self) {
        self.far.clear();
        self.look();
    }
}

fn world(name: &'static str, post: Arc<Post>, blocks: bool) -> Arc<World> {
    Arc::new(World {
        name,
        blocks,
        is_shaken: false,
        is_saturated: AtomicBool::new(false),
        post,
        ended: AtomicBool::new(false),
    })
}

fn far(n: usize) -> Duration {
    Duration::from_secs(100_000 + 7 * n as u64)
}

/// The timers that the steady runtime is given.
fn timers() -> [(Builder, Class); 4] {
    let builder = Timer::builder;
    [
        (builder(), Class::Built),
        (builder().coarse(), Class::Coarse),
        (builder().high_resolution(), Class::HighResolution),
        (builder().max_pending(MAX_PENDING), Class::Limited),
    ]
}

/// Drives a current-thread runtime on this thread until told to stop.
fn alone(world: &Arc<World>, seed: u64, stop: &Stop) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("cannot start a runtime");
    let mut rng = Rng::with_seed(seed);
    let ambient = Place::ambient(world, Class::Ambient);
    let parcels = world.post.open_box();
    runtime.block_on(async {
        let built = Timer::builder().tick(Duration::from_millis(1)).build();
        let built = Place::of(world, built.expect("it is in range"), Class::Built);
        let mut tasks = vec![tokio::spawn(receive(ambient.clone(), parcels))];
        for place in [&ambient, &built] {
            for _ in 0..ACTORS {
                let stop = stop.clone();
                let actor = act(place.clone(), rng.u64(..), move || stop.is_raised());
                tasks.push(tokio::spawn(actor));
            }
        }
        for task in tasks {
            // Its panic was noted.
            let _ended = task.await;
        }
        // Who has received a sleep of this runtime elsewhere may be awaiting it yet.
        let until = Instant::now() + LAST_ARRIVAL;
        let timers = [built.timer(), Timer::current()];
        let pending = || {
            timers
                .iter()
                .map(|timer| timer.metrics().pending())
                .sum::<u64>()
        };
        while pending() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let pending = pending();
        if pending > 0 {
            faults::found(format!("{pending} are pending on {}", world.name));
        }
    });
    world.ended.store(true, Ordering::SeqCst);
}

/// Looks whether a timer is empty. Shuts it down when it is full, or just drops it.
fn finish(runtime: &Runtime, place: &Arc<Place>, rng: &mut Rng) {
    let Some(timer) = &place.timer else { return };
    let pending = timer.metrics().pending();
    if pending > 0 {
        faults::found(format!("{pending} are pending on {place}"));
    }
    let _entered = runtime.enter();
    if place.class == Class::Limited {
        try_limit(timer);
    }
    if rng.bool() {
        shut_down_full(place, timer);
    }
}

/// Schedules until the limit is reached: it is off if an entry was counted that is gone.
fn try_limit(timer: &Timer) {
    let schedule = || timer.schedule(Duration::from_secs(60), async {});
    let tasks: Vec<_> = std::iter::from_fn(|| schedule().ok())
        .take(2 * MAX_PENDING)
        .collect();
    let scheduled = tasks.len();
    let cancelled = tasks.iter().filter(|task| task.cancel()).count();
    let pending = timer.metrics().pending();
    if (scheduled, cancelled, pending) != (MAX_PENDING, MAX_PENDING, 0) {
        faults::found(format!(
            "under a limit of {MAX_PENDING}: {scheduled} scheduled, {cancelled} of these cancelled, \
             {pending} pending"
        ));
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Shuts a timer down with sleeps pending, all of which must be woken.
fn shut_down_full(place: &Arc<Place>, timer: &Timer) {
    const SLEEPS: usize = 1_000;
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let sleeps: Vec<_> = (0..SLEEPS)
        .map(|n| {
            let mut sleep = place.sleep(far(n));
            assert!(sleep.is_pending(&mut Context::from_waker(&waker)));
            sleep
        })
        .collect();
    place.end();
    shut_down(timer);
    let (count, pending) = (woken.0.load(Ordering::SeqCst), timer.metrics().pending());
    if (count, pending) != (SLEEPS, 0) {
        faults::found(format!(
            "of {SLEEPS} sleeps, {count} were woken and {pending} are pending after the shutdown of {place}"
        ));
    }
    drop(sleeps);
}

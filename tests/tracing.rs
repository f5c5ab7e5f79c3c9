//! Tests the feature `tracing`: the driver's events, and what a subscriber may do when it gets them. One global
//! subscriber passes each event to a hook of its thread. A scoped subscriber would not show events within events.

#![cfg(all(feature = "test-util", feature = "tracing"))]

mod support;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    fmt,
    panic::panic_any,
    rc::Rc,
    sync::{Arc, Barrier, Mutex, Once, mpsc},
    thread,
};

use support::{
    Wakes, does_not_hang,
    hostile::{Hook, PanicsOnDrop, use_shard},
    leap, ms, multi_thread, paused, pending, poll, registered, secs, settle, until_a_block_counts,
    wait_until,
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
};
use tokio_test::assert_pending;
use tokio_wheel::{Duration, Instant, Timer, sleep};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// An event. The values of its fields are text.
#[derive(Clone, Debug)]
struct Seen {
    level: Level,
    message: String,
    fields: BTreeMap<&'static str, String>,
}

impl Seen {
    fn is(&self, message: &str) -> bool {
        self.message == message
    }

    fn number(&self, field: &str) -> u64 {
        self.fields[field].parse().unwrap()
    }
}

impl Visit for Seen {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => drop(self.fields.insert(name, format!("{value:?}"))),
        }
    }
}

type OnEvent = Rc<dyn Fn(Seen)>;

thread_local! {
    static ON_EVENT: RefCell<Option<OnEvent>> = const { RefCell::new(None) };
}

/// Passes this crate's events to the hook of the thread.
struct ToHook;

impl Subscriber for ToHook {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tokio_wheel"
    }

    fn event(&self, event: &Event<'_>) {
        let on_event = ON_EVENT.with_borrow(Clone::clone);
        if let Some(on_event) = on_event {
            let mut seen = Seen {
                level: *event.metadata().level(),
                message: String::new(),
                fields: BTreeMap::new(),
            };
            event.record(&mut seen);
            on_event(seen);
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        panic!("there are no spans");
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn hook(on_event: impl Fn(Seen) + 'static) {
    static GLOBAL: Once = Once::new();
    GLOBAL.call_once(|| tracing::subscriber::set_global_default(ToHook).unwrap());
    ON_EVENT.set(Some(Rc::new(on_event)));
}

/// Builds a runtime whose threads have this hook.
fn hooked(workers: usize, on_event: impl Fn(Seen) + Clone + Send + Sync + 'static) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .on_thread_start(move || hook(on_event.clone()))
        .build()
        .unwrap()
}

/// The events of this thread since `start`.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<Seen>>>);

impl Log {
    fn start() -> Self {
        let log = Self::default();
        let events = log.clone();
        hook(move |seen| events.0.borrow_mut().push(seen));
        log
    }

    /// Takes all events, and returns the events with this message.
    fn take(&self, message: &str) -> Vec<Seen> {
        let events = self.0.take();
        events.into_iter().filter(|seen| seen.is(message)).collect()
    }
}

#[test]
fn a_timers_life_in_events() {
    let log = Log::start();
    let runtime = paused();
    let sleeps = runtime.block_on(async {
        let sleeps = [10, 10, 10, 5_000, 5_000].map(|n| pending(sleep(ms(n))));
        tokio::time::sleep(ms(20)).await;
        // Each counted wake-up is an event.
        assert_eq!(Timer::current().metrics().driver_wakeups(), 1);
        sleeps
    });
    drop(runtime);
    drop(sleeps);
    let events: Vec<_> = (log.0.take().into_iter())
        .map(|mut seen| {
            // The number of steps depends on the wheel.
            if let Some(steps) = seen.fields.remove("steps") {
                assert!(steps.parse::<u64>().unwrap() >= seen.number("fired"));
            }
            let fields = seen.fields.iter().map(|(name, it)| format!(" {name}={it}"));
            let fields: String = fields.collect();
            format!("{} {}:{fields}", seen.level, seen.message)
        })
        .collect();
    assert_eq!(
        events,
        [
            "TRACE driver woke up: by=alarm",
            "TRACE batch: fired=3 interrupted=false shard=0",
            "DEBUG timer shut down: pending=2",
        ]
    );
}

/// The event of a batch comes after its wakes, so a slow subscriber does not delay the tasks of the batch.
#[test]
fn a_storm_takes_several_batches() {
    let (wakes, waker) = Wakes::new();
    let log = Rc::new(RefCell::new(Vec::new()));
    let (events, woken) = (log.clone(), wakes.clone());
    hook(move |seen| events.borrow_mut().push((seen, woken.count() as u64)));
    paused().block_on(async {
        let _sleeps = [(); 1_000].map(|()| registered(sleep(ms(10)), &waker));
        settle().await;
        leap(ms(25)).await;
    });
    let mut batches: Vec<(Seen, _)> = log.take();
    batches.retain(|(seen, _)| seen.is("batch"));
    let mut fired = 0;
    for (batch, woken) in &batches {
        fired += batch.number("fired");
        assert_eq!(fired, *woken);
        let is_last = fired == 1_000;
        assert_eq!(batch.fields["interrupted"], (!is_last).to_string());
        assert!(is_last || batch.number("steps") <= 128);
    }
    assert!(fired == 1_000 && batches.len() > 2);
}

#[test]
fn the_event_of_a_panicking_waker_has_its_message() {
    let log = Log::start();
    let seven = 7;
    let panics = |panic: fn(i32)| Hook::on_wake(move || panic(seven));
    let hooks = [
        panics(|_| panic!("a literal")),
        panics(|n| panic!("formatted {n}")),
        panics(|n| panic_any(n)),
    ];
    let told = || {
        let told = log.take("waker panicked");
        assert!(told.iter().all(|seen| seen.level == Level::ERROR));
        (told.into_iter())
            .map(|mut seen| seen.fields.remove("panic"))
            .collect::<Vec<_>>()
    };
    let runtime = paused();
    runtime.block_on(async {
        let waits = [1, 2, 3].into_iter().zip(&hooks);
        let sleeps = waits.map(|(wait, hook)| registered(sleep(ms(wait)), &hook.waker()));
        let _sleeps: Vec<_> = sleeps.collect();
        tokio::time::sleep(ms(10)).await;
        let expected = [Some("a literal"), Some("formatted 7"), None];
        assert_eq!(told(), expected.map(|message| message.map(str::to_owned)));
    });

    // A waker may also panic when the runtime shuts down.
    let hook = Hook::on_wake(|| panic!("at the end"));
    let entered = runtime.enter();
    let _last = registered(sleep(secs(60)), &hook.waker());
    drop(entered);
    drop(runtime);
    assert_eq!(told(), [Some("at the end".to_owned())]);
}

#[test]
fn a_subscriber_that_panics_harms_no_timer() {
    for panics in [|| panic!("hostile"), || panic_any(PanicsOnDrop)] {
        does_not_hang(move || {
            let told = Rc::new(Cell::new(0));
            let count = told.clone();
            hook(move |_| {
                count.set(count.get() + 1);
                panics();
            });
            let runtime = paused();
            let (wakes, waker) = Wakes::new();
            let hostile = Hook::on_wake(|| panic!("a waker as well"));
            let mut last = sleep(secs(60));
            let timer = runtime.block_on(async {
                let _first = registered(sleep(ms(5)), &hostile.waker());
                let _others = [(); 299].map(|()| registered(sleep(ms(5)), &waker));
                assert_pending!(poll(&mut last, &waker));
                tokio::time::sleep(ms(5)).await;
                settle().await;
                assert_eq!(wakes.count(), 299);
                // The driver still works.
                let start = Instant::now();
                sleep(ms(7)).await;
                assert_eq!(start.elapsed(), ms(7));
                Timer::current()
            });
            assert!(!timer.is_shutdown());
            drop(runtime);
            assert!(timer.is_shutdown());
            assert_eq!(wakes.count(), 300);
            assert!(told.get() > 5);
        });
    }
}

#[test]
fn a_subscriber_may_use_the_timer_of_an_event() {
    does_not_hang(|| {
        let runtime = paused();
        let entered = runtime.enter();
        let timer = Timer::current();
        let victims = (0..100).map(|n| pending(sleep(ms(n % 10 + 2))));
        let victims: RefCell<Vec<_>> = RefCell::new(victims.collect());
        drop(entered);
        let touched = Rc::new(RefCell::new(BTreeSet::new()));
        let messages = touched.clone();
        hook(move |seen| {
            let victim = victims.borrow_mut().pop();
            match victim {
                Some(victim) if !seen.is("timer shut down") => use_shard(victim, &timer),
                // Its shards are closed, but not locked.
                victim => drop((victim, timer.metrics())),
            }
            messages.borrow_mut().insert(seen.message);
        });
        let hostile = Hook::on_wake(|| panic!("hostile"));
        runtime.block_on(async {
            let _sleeping = registered(sleep(ms(3)), &hostile.waker());
            for _ in 0..5 {
                sleep(ms(1)).await;
            }
        });
        drop(runtime);
        let all = "batch, driver woke up, timer shut down, waker panicked";
        assert_eq!(Vec::from_iter(touched.take()).join(", "), all);
    });
}

/// On a runtime that shuts down, each new timer shuts down at once, and its event would make another timer.
#[test]
fn a_subscribers_own_timers_cause_no_events() {
    does_not_hang(|| {
        let runtime = paused();
        let handle = runtime.handle().clone();
        let (depth, told) = (Cell::new(0), Rc::new(Cell::new(0)));
        let count = told.clone();
        hook(move |seen| {
            if seen.is("timer shut down") {
                count.set(count.get() + 1);
                assert_eq!(depth.replace(1), 0, "an event within an event");
                let _entered = handle.enter();
                let timer = Timer::builder().build().unwrap();
                assert!(timer.is_shutdown());
                depth.set(0);
            }
        });
        runtime.block_on(async { sleep(ms(1)).await });
        let _entered = runtime.enter();
        let (one, two) = (Timer::current(), Timer::builder().build().unwrap());
        drop(_entered);
        drop(runtime);
        assert!(one.is_shutdown() && two.is_shutdown());
        assert_eq!(told.get(), 2);
        // Later events arrive again.
        let log = Log::start();
        paused().block_on(sleep(ms(1)));
        assert!(!log.0.take().is_empty());
    });
}

/// After `block_in_place`, other threads serve as the workers. The events of the driver name the shard of a sleep.
#[test]
fn workers_share_no_shard_after_block_in_place() {
    const WORKERS: usize = 4;
    does_not_hang(|| {
        let shards = Arc::new(Mutex::new(Vec::new()));
        let fired_in = shards.clone();
        let runtime = hooked(WORKERS, move |seen| {
            if seen.is("batch") {
                let fired = vec![seen.number("shard"); seen.number("fired") as usize];
                fired_in.lock().unwrap().extend(fired);
            }
        });
        for round in 0..50_u64 {
            let sleeps = runtime.block_on(async {
                let mut tasks = JoinSet::new();
                for n in 0..2 * WORKERS as u64 {
                    tasks.spawn(async move {
                        drop(pending(sleep(secs(60))));
                        let takes = Duration::from_micros((round * 31 + n * 17) % 7 * 100);
                        tokio::task::block_in_place(|| thread::sleep(takes));
                    });
                }
                tasks.join_all().await;
                // The barrier keeps each task on its own worker.
                let all_there = Arc::new(Barrier::new(WORKERS));
                let mut tasks = JoinSet::new();
                for _ in 0..WORKERS {
                    let all_there = all_there.clone();
                    tasks.spawn(async move {
                        all_there.wait();
                        let soon = pending(sleep(ms(30)));
                        all_there.wait();
                        [soon]
                    });
                }
                tasks.join_all().await
            });
            wait_until(|| shards.lock().unwrap().len() == WORKERS);
            let shards = std::mem::take(&mut *shards.lock().unwrap());
            let distinct = BTreeSet::from_iter(&shards).len();
            assert_eq!(distinct, WORKERS, "round {round}: in shards {shards:?}");
            drop(sleeps);
        }
    });
}

/// A worker that has entered another runtime's handle uses its own timer. A debug build warns, once for each thread.
#[test]
#[cfg(debug_assertions)]
fn a_worker_that_uses_its_own_timer_for_another_runtime_warns() {
    does_not_hang(|| {
        let (home, other) = (multi_thread(1), multi_thread(1));
        let of_other = other.block_on(async { Timer::current() });
        let handle = other.handle().clone();
        let warnings = home.block_on(home.spawn(async move {
            // Afterwards, the thread remembers that it is a worker of `home`.
            for _ in 0..3 {
                sleep(ms(1)).await;
            }
            let seen = Rc::new(RefCell::new(Vec::new()));
            let warnings = seen.clone();
            hook(move |event| {
                if event.level <= Level::WARN {
                    // A subscriber may use the timer that warns.
                    drop(pending(sleep(secs(60))));
                    warnings.borrow_mut().push(event.message);
                }
            });
            drop(pending(sleep(secs(60))));
            let _entered = handle.enter();
            drop(pending(of_other.sleep(secs(60))));
            assert!(seen.borrow().is_empty());
            for _ in 0..3 {
                drop(pending(sleep(secs(60))));
            }
            seen.take()
        }));
        let warnings = warnings.unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        // The text is not a promise, but the documentation shows its beginning.
        let begin = "a sleep, timeout or interval uses the timer of the worker's own runtime";
        assert!(warnings[0].starts_with(begin), "{warnings:?}");
    });
}

#[test]
fn a_block_is_an_event_when_it_has_ended() {
    let (sender, events) = mpsc::channel();
    // The event comes on a worker.
    let runtime = hooked(2, move |seen| {
        if seen.is("a task blocked a worker") {
            let ms: f64 = seen.fields["ms"].parse().unwrap();
            sender.send((seen.level, ms)).unwrap();
        }
    });
    runtime.block_on(until_a_block_counts());
    let (level, length) = events.recv_timeout(ms(60_000)).unwrap();
    let longest = runtime.block_on(async { Timer::current().metrics().longest_block() });
    assert_eq!(level, Level::WARN);
    assert!(length > 0.0 && length <= longest.as_secs_f64() * 1e3);
}

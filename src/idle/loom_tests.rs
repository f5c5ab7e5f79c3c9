//! Loom models of the races between touches, splits and the reaper.
//!
//! The wheels have 2 levels of 4 slots. A shard splits before it takes a second key. `.ci/loom`
//! runs the models. `crate::driver::loom_tests` lists all models of the crate. The files in
//! [`idle`](super) state promises, and each model checks one of these promises.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Wake, Waker},
    time::Duration,
};

use loom::thread;

use super::{
    core::Core,
    digest::{Digest, Part},
    pace::Pace,
    round::Round,
    shard::{Outcome, Shard},
};
use crate::{driver::clock::Clock, wheel::Tick};

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counting_waker() -> (Arc<Wakes>, Waker) {
    let wakes = Arc::new(Wakes::default());
    (wakes.clone(), wakes.into())
}

/// Returns a pace for a set with the timeout [`TIMEOUT`]. Under a pressure of 1, a key with this
/// timeout loses all [`TIMEOUT`] ticks. A key with a timeout of 0 loses nothing.
fn pace() -> Pace {
    let [tick, timeout] = [1, TIMEOUT].map(Duration::from_nanos);
    Pace::new(tick, timeout, Duration::ZERO)
}

/// Returns a set with at most `most` shards. Its reaper is late, because it is armed for [`NOW`],
/// and [`NOW`] has passed.
fn behind(most: usize) -> Arc<Core<u8>> {
    // Because the tick is an hour, the wheels begin at tick 0 even on a slow machine.
    let clock = Clock::new(Duration::from_secs(3_600));
    let core = Arc::new(Core::new(clock, pace(), most));
    core.arming.arm(|| NOW);
    core
}

/// The timeout of the set, in ticks.
const TIMEOUT: u64 = 7;

const NOW: Tick = Tick(1);

/// A key that stays in its shard when the shard splits.
const STAYS: u8 = 1;

/// A key that moves to the new shard.
const MOVES: u8 = 2;

/// Another key that moves to the new shard.
const MOVES_TOO: u8 = 4;

fn digest(key: u8) -> Digest {
    Digest::of(key.into())
}

/// Returns a shard to which all keys belong.
fn shard() -> Arc<Shard<u8>> {
    Arc::new(Shard::new(Tick(0), Part::whole(1)))
}

fn insert(shard: &Shard<u8>, key: u8, deadline: Tick) -> Outcome {
    let (pace, new) = (&pace(), &mut Some(key));
    let is_it = |k: &u8| *k == key;
    let touched = shard.touch_or_insert(pace, digest(key), is_it, None, |_| deadline, new, 0);
    touched.unwrap()
}

/// Inserts a key with a timeout of 0, as `IdleSet::touch` does.
fn try_touch(core: &Core<u8>, key: u8, deadline: Tick) -> Outcome {
    touch_with_timeout(core, key, 0, deadline)
}

/// Inserts a key with a timeout, as `IdleSet::touch` does.
fn touch_with_timeout(core: &Core<u8>, key: u8, timeout: u64, deadline: Tick) -> Outcome {
    let new = &mut Some(key);
    let is_it = |k: &u8| *k == key;
    let touched = core.shards.with(digest(key), |shard| {
        shard.touch_or_insert(
            &core.pace,
            digest(key),
            is_it,
            None,
            |_| deadline,
            new,
            timeout,
        )
    });
    if let Outcome::Inserted(next) = touched {
        core.follow_up(digest(key), next);
    }
    touched
}

fn is_inserted(touched: &Outcome) -> bool {
    matches!(touched, Outcome::Inserted(_))
}

fn touch(core: &Core<u8>, key: u8, deadline: Tick) {
    let touched = try_touch(core, key, deadline);
    assert!(is_inserted(&touched));
}

/// Returns a set with the key [`MOVES`], which is due at tick 2. Also starts a thread that inserts
/// [`STAYS`]. This insertion splits the shard.
fn splits() -> (Arc<Core<u8>>, thread::JoinHandle<Outcome>) {
    let core = behind(2);
    let half = |key| digest(key).number() % 2;
    assert_eq!([STAYS, MOVES, MOVES_TOO].map(half), [0, 1, 1]);
    touch(&core, MOVES, Tick(2));
    let other = core.clone();
    let split = thread::spawn(move || try_touch(&other, STAYS, Tick(9)));
    (core, split)
}

/// Returns the tick of the clock for which the reaper waits.
fn wait(core: &Core<u8>, waker: &Waker) -> Tick {
    core.wait(waker, NOW).unwrap().clock
}

/// Returns the last tick for which the reaper waits. The reaper first waited for `until`. If a
/// thread has woken the reaper since then, the reaper polls again.
fn waits_until(core: &Core<u8>, until: Tick, wakes: &Wakes, waker: &Waker) -> Tick {
    if wakes.0.load(SeqCst) == 0 {
        until
    } else {
        wait(core, waker)
    }
}

/// Never lost: two threads touch keys while the reaper begins to wait. The reaper waits at most
/// until the earliest deadline, or a touch wakes the reaper.
#[test]
fn touch_races_wait() {
    loom::model(|| {
        let core = behind(2);
        let touches = [(STAYS, Tick(3)), (MOVES, Tick(2))].map(|(key, deadline)| {
            let core = core.clone();
            thread::spawn(move || touch(&core, key, deadline))
        });
        let (wakes, waker) = counting_waker();
        let until = wait(&core, &waker);
        touches
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let until = waits_until(&core, until, &wakes, &waker);
        assert!(until <= Tick(2), "waits until {until:?}");
    });
}

/// Never lost: a touch sets an earlier deadline for a key of the set while the reaper begins to
/// wait. The reaper waits at most until this deadline, or the touch wakes the reaper.
#[test]
fn earlier_touch_races_wait() {
    loom::model(|| {
        let core = behind(2);
        touch(&core, 7, Tick(9));
        let earlier = {
            let core = core.clone();
            thread::spawn(move || {
                let touched = core.shards.with(digest(7), |shard| {
                    shard.touch(&core.pace, digest(7), |k| *k == 7, Some(0), |_| Tick(2))
                });
                let Outcome::Earlier(next) = touched else {
                    panic!("{touched:?}");
                };
                core.follow_up(digest(7), next);
            })
        };
        let (wakes, waker) = counting_waker();
        let until = wait(&core, &waker);
        earlier.join().unwrap();
        let until = waits_until(&core, until, &wakes, &waker);
        assert!(until <= Tick(2), "waits until {until:?}");
    });
}

/// Never lost: a second task polls the reaper while a thread touches a key. The reaper waits at
/// most until the key's deadline, or the touch wakes the second task.
#[test]
fn touch_races_a_new_waker() {
    loom::model(|| {
        let core = behind(2);
        let (_, old) = counting_waker();
        assert_eq!(wait(&core, &old), Tick::NEVER);
        let touching = {
            let core = core.clone();
            thread::spawn(move || touch(&core, 7, Tick(2)))
        };
        let (wakes, new) = counting_waker();
        let until = wait(&core, &new);
        touching.join().unwrap();
        let until = waits_until(&core, until, &wakes, &new);
        assert!(until <= Tick(2), "waits until {until:?}");
    });
}

/// The stream ends: the last handle is dropped while the reaper begins to wait. Either the reaper
/// sees the drop, or the drop wakes the reaper.
#[test]
fn last_handle_races_wait() {
    loom::model(|| {
        let core = behind(2);
        let last = {
            let core = core.clone();
            thread::spawn(move || core.abandon())
        };
        let (wakes, waker) = counting_waker();
        let ended = core.wait(&waker, NOW).is_none();
        last.join().unwrap();
        assert!(ended || wakes.0.load(SeqCst) == 1);
        assert_eq!(core.wait(&waker, NOW), None);
    });
}

/// Exactly once: either a touch postpones the key, or the reaper returns it.
#[test]
fn touch_races_expire() {
    loom::model(|| {
        let shard = shard();
        insert(&shard, 7, Tick(2));
        let reaper = {
            let shard = shard.clone();
            thread::spawn(move || shard.expire(&pace(), Tick(2), &mut 8))
        };
        let touched = shard
            .touch(&pace(), digest(7), |k| *k == 7, None, |_| Tick(6))
            .unwrap();
        match (reaper.join().unwrap(), touched) {
            (Some(7), Outcome::Absent) => assert_eq!(shard.len(), 0),
            (None, Outcome::PutOff) => {
                assert_eq!(shard.expire(&pace(), Tick(5), &mut 8), None);
                assert_eq!(shard.expire(&pace(), Tick(6), &mut 8), Some(7));
            }
            neither => panic!("{neither:?}"),
        }
    });
}

/// Exactly once: if two threads touch an absent key, only one of them inserts the key.
#[test]
fn touch_races_touch() {
    loom::model(|| {
        let shard = shard();
        let other = {
            let shard = shard.clone();
            thread::spawn(move || insert(&shard, 7, Tick(3)))
        };
        let inserted = [insert(&shard, 7, Tick(2)), other.join().unwrap()];
        let news = inserted.iter().filter(|touched| is_inserted(touched));
        assert_eq!(news.count(), 1, "{inserted:?}");
        assert_eq!(shard.len(), 1);
    });
}

/// A closed set keeps no key. If a touch comes before the close, the close removes the key. If the
/// touch comes later, it inserts no key.
#[test]
fn touch_races_close() {
    loom::model(|| {
        let shard = shard();
        let closer = {
            let shard = shard.clone();
            thread::spawn(move || shard.close().count())
        };
        let inserted = insert(&shard, 7, Tick(2));
        let taken = closer.join().unwrap();
        assert_eq!(taken == 1, is_inserted(&inserted));
        assert_eq!(shard.len(), 0);
        assert_eq!(insert(&shard, 8, Tick(2)), Outcome::Closed);
    });
}

/// A touch finds a key of the set while the shard splits.
#[test]
fn split_races_touch() {
    loom::model(|| {
        let (core, split) = splits();
        let touched = core.shards.with(digest(MOVES), |shard| {
            shard.touch(
                &core.pace,
                digest(MOVES),
                |k| *k == MOVES,
                None,
                |_| Tick(6),
            )
        });
        assert_eq!(touched, Outcome::PutOff);
        assert!(is_inserted(&split.join().unwrap()));
        let mut keys = core
            .shards
            .iter()
            .filter_map(|shard| shard.expire(&core.pace, Tick(6), &mut 8));
        assert!(keys.by_ref().eq([MOVES]));
        assert_eq!(core.shards.iter().count(), 2);
    });
}

/// Exactly once: a removal finds a key of the set while the shard splits.
#[test]
fn split_races_remove() {
    loom::model(|| {
        let (core, split) = splits();
        let remove = || {
            core.shards.with(digest(MOVES), |shard| {
                shard.remove(digest(MOVES), |k| *k == MOVES)
            })
        };
        assert_eq!(remove(), Some(MOVES));
        split.join().unwrap();
        assert_eq!(remove(), None);
        assert_eq!(core.len(), 1);
    });
}

/// If two threads find that a shard must split, the shard splits only once.
#[test]
fn split_races_split() {
    loom::model(|| {
        let (core, split) = splits();
        touch(&core, MOVES_TOO, Tick(3));
        assert!(is_inserted(&split.join().unwrap()));
        let lens = core.shards.iter().map(Shard::len);
        assert!(lens.eq([1, 2]));
    });
}

/// Never lost: the reaper finds a due key while the shard splits.
///
/// The model checks the search for the next expiration and the visit of all shards.
#[test]
fn split_races_wait() {
    loom::model(|| {
        let (core, split) = splits();
        let (wakes, waker) = counting_waker();
        let until = wait(&core, &waker);
        let len = core.len();
        assert!((1..=2).contains(&len), "{len} keys");
        let mut due = core
            .shards
            .iter()
            .filter_map(|shard| shard.expire(&core.pace, Tick(2), &mut 8));
        assert_eq!(due.next(), Some(MOVES));
        split.join().unwrap();
        assert!(waits_until(&core, until, &wakes, &waker) <= Tick(2));
    });
}

/// A closed set keeps no key. One thread splits a shard while another thread closes the set.
#[test]
fn split_races_close() {
    loom::model(|| {
        let (core, split) = splits();
        let closed = core.shards.iter().flat_map(Shard::close).count();
        let inserted = is_inserted(&split.join().unwrap());
        assert_eq!(closed, 1 + usize::from(inserted));
        assert!(core.shards.iter().all(Shard::is_closed));
        assert_eq!(core.len(), 0);
    });
}

/// Never late: the pressure rises while the reaper begins to wait. The reaper waits at most until
/// the new effective deadline, or the thread that raises the pressure wakes the reaper.
///
/// Two threads raise the pressure at the same time.
#[test]
fn pressure_races_wait() {
    loom::model(|| {
        let core = behind(2);
        touch_with_timeout(&core, 7, TIMEOUT, Tick(9));
        let rises = [0.5, 1.0].map(|pressure| {
            let core = core.clone();
            thread::spawn(move || core.set_pressure(pressure))
        });
        let (wakes, waker) = counting_waker();
        let until = wait(&core, &waker);
        rises.into_iter().for_each(|thread| thread.join().unwrap());
        let until = waits_until(&core, until, &wakes, &waker);
        let deadline = core.pace.frame().effective(Tick(9), TIMEOUT);
        assert!(until <= deadline, "waits until {until:?}, not {deadline:?}");
    });
}

/// Never late: if a key is inserted while the pressure rises, the reaper waits at most until the
/// key's effective deadline.
#[test]
fn pressure_races_insertion() {
    loom::model(|| {
        let core = behind(2);
        let rises = {
            let core = core.clone();
            thread::spawn(move || core.set_pressure(1.0))
        };
        let touched = touch_with_timeout(&core, 7, TIMEOUT, Tick(9));
        assert!(is_inserted(&touched));
        rises.join().unwrap();
        let (_, waker) = counting_waker();
        assert!(wait(&core, &waker) <= Tick(2));
    });
}

/// Never early: if a key is touched after the pressure has fallen to 0, the key keeps its full
/// timeout.
#[test]
fn pressure_races_expire() {
    loom::model(|| {
        let core = behind(1);
        core.set_pressure(1.0);
        touch_with_timeout(&core, 7, TIMEOUT, Tick(8));
        let reaper = {
            let core = core.clone();
            thread::spawn(move || {
                let (_, shard) = core.shards.next(0).unwrap();
                shard.expire(&core.pace, core.pace.ahead(NOW), &mut 8)
            })
        };
        core.set_pressure(0.0);
        let touched = core.shards.with(digest(7), |shard| {
            shard.touch(&core.pace, digest(7), |k| *k == 7, None, |_| Tick(8))
        });
        let reaped = reaper.join().unwrap();
        assert_eq!(reaped.is_some(), touched == Outcome::Absent, "{touched:?}");
    });
}

/// Returns a set after a shed. The set had two keys that were due at tick 9, and the shed has
/// removed one of them. The other key stays, so the shard publishes the tick of its wheel.
fn after_a_shed() -> Arc<Core<u8>> {
    let core = behind(1);
    touch(&core, MOVES, Tick(9));
    touch(&core, MOVES_TOO, Tick(9));
    assert!(shed_to(&core, Tick(9)).is_some());
    core
}

fn shed_to(core: &Core<u8>, until: Tick) -> Option<u8> {
    Round::new(until).work(core, &mut 32)
}

/// Never late: a thread inserts a key behind a shed. The reaper waits at most until the key's
/// deadline, or the insertion wakes the reaper.
#[test]
fn insertion_behind_a_shed_races_wait() {
    loom::model(|| {
        let core = after_a_shed();
        let inserts = {
            let core = core.clone();
            thread::spawn(move || touch(&core, STAYS, Tick(2)))
        };
        let (wakes, waker) = counting_waker();
        let until = wait(&core, &waker);
        inserts.join().unwrap();
        let until = waits_until(&core, until, &wakes, &waker);
        assert!(until <= Tick(2), "waits until {until:?}");
    });
}

/// Never late: a round discards the pair of a removed key. At this time, a thread inserts the key
/// again with an equal deadline. The reaper still returns the key in time.
#[test]
fn insertion_behind_a_shed_races_a_round() {
    loom::model(|| {
        let core = after_a_shed();
        touch(&core, STAYS, Tick(2));
        let removed = core.shards.with(digest(STAYS), |shard| {
            shard.remove(digest(STAYS), |k| *k == STAYS)
        });
        assert_eq!(removed, Some(STAYS));
        let inserts = {
            let core = core.clone();
            thread::spawn(move || touch(&core, STAYS, Tick(2)))
        };
        let early = shed_to(&core, Tick(2));
        inserts.join().unwrap();
        let key = early.or_else(|| shed_to(&core, Tick(2)));
        assert_eq!(key, Some(STAYS));
    });
}

//! Loom models of the races between touches and the reaper.
//!
//! The wheels have 2 levels of 4 slots. `.ci/loom` runs the models. A model runs the crate's own
//! code. Loom replaces only the locks and atomics (see [`sync`](crate::ground::sync)). The files in
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

use bounded_wheel::Tick;

use super::{
    digest::Digest,
    shards::Shards,
    sweep::Sweep,
    touched::Touched::{self, Absent, Closed, Inserted, Present},
};
use crate::ground::clock::Clock;

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

const NOW: Tick = 1;

/// A key of shard 0, if the set has two shards.
const A: u8 = 1;

/// A key of shard 1, if the set has two shards.
const B: u8 = 2;

/// Returns a set whose reaper is late: it is armed for [`NOW`], and [`NOW`] has passed. The waker of
/// its last poll is still stored.
fn late(shards: usize) -> Arc<Shards<u8>> {
    // Because the tick is an hour, the wheels begin at tick 0 even on a slow machine.
    let clock = Clock::new(Duration::from_secs(3_600));
    let shards = Arc::new(Shards::new(clock, shards));
    let (_, old) = counting_waker();
    assert_eq!(shards.armed.arm(&old, || NOW), NOW);
    shards
}

fn digest(key: u8) -> Digest {
    Digest::of(key.into())
}

/// Touches a key under one hold of the lock. If `timeout` is `Some`, sets the key's timeout. The
/// outcome of an absent key is [`Absent`].
fn touch_existing(shards: &Shards<u8>, key: u8, timeout: Option<u64>, deadline: Tick) -> Touched {
    let digest = digest(key);
    match shards.lock(digest) {
        Ok(mut keys) => {
            let touched = keys.touch(digest, |k| *k == key, timeout, |_| deadline);
            keys.unlock();
            touched
        }
        Err(touched) => touched,
    }
}

/// Touches a key or inserts it, as `IdleSet::touch` does after it has found that the key is absent.
fn touch(shards: &Shards<u8>, key: u8, timeout: u64, deadline: Tick) -> Touched {
    let digest = digest(key);
    let Some(mut keys) = shards.lock_with_room(digest) else {
        return Closed;
    };
    let mut touched = keys.touch(digest, |k| *k == key, None, |_| deadline);
    if touched == Absent {
        keys.insert(digest, key, timeout, deadline);
        touched = Inserted;
    }
    keys.unlock();
    touched
}

fn sweep(shards: &Shards<u8>, until: Tick) -> Option<u8> {
    Sweep::to(until).next_key(shards, &mut 32)
}

/// Returns the tick for which the reaper waits.
fn wait(shards: &Shards<u8>, waker: &Waker) -> Tick {
    shards.wait(waker).unwrap()
}

/// Lets the reaper begin to wait while `others` run. Returns the last tick for which it waits: if a
/// thread has woken the reaper, it polls again.
fn wait_beside<const N: usize>(shards: &Arc<Shards<u8>>, others: [fn(&Shards<u8>); N]) -> Tick {
    let threads = others.map(|other| {
        let shards = shards.clone();
        thread::spawn(move || other(&shards))
    });
    let (wakes, waker) = counting_waker();
    let until = wait(shards, &waker);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    match wakes.0.load(SeqCst) {
        0 => until,
        _ => wait(shards, &waker),
    }
}

/// Never lost: two threads touch keys while the reaper begins to wait with another waker. One of
/// them inserts the first key of a shard, and the other sets an earlier deadline. The reaper waits
/// at most until the earliest deadline, or a touch wakes the reaper.
#[test]
fn touch_races_wait() {
    loom::model(|| {
        let shards = late(2);
        assert_eq!(touch(&shards, A, 0, 9), Inserted);
        let until = wait_beside(
            &shards,
            [
                |shards| assert_eq!(touch_existing(shards, A, Some(0), 3), Present),
                |shards| assert_eq!(touch(shards, B, 0, 2), Inserted),
            ],
        );
        assert!(until <= 2, "waits until {until:?}");
        assert_eq!(sweep(&shards, 3), Some(A));
        assert_eq!(sweep(&shards, 3), Some(B));
    });
}

/// The stream ends: the last handle is dropped while the reaper begins to wait. Either the reaper
/// sees the drop, or the drop wakes the reaper.
#[test]
fn last_handle_races_wait() {
    loom::model(|| {
        let shards = late(2);
        let last = {
            let shards = shards.clone();
            thread::spawn(move || shards.abandon())
        };
        let (wakes, waker) = counting_waker();
        let ended = shards.wait(&waker).is_none();
        last.join().unwrap();
        assert!(ended || wakes.0.load(SeqCst) == 1);
        assert_eq!(shards.wait(&waker), None);
    });
}

/// Exactly once: if two threads touch an absent key, only one of them inserts the key. Both may
/// allocate the shard.
#[test]
fn touch_races_touch() {
    loom::model(|| {
        let shards = late(2);
        let other = {
            let shards = shards.clone();
            thread::spawn(move || touch(&shards, A, 0, 3))
        };
        let touched = [touch(&shards, A, 0, 2), other.join().unwrap()];
        assert!(
            touched.contains(&Inserted) && touched.contains(&Present),
            "{touched:?}"
        );
        assert_eq!(shards.len(), 1);
    });
}

/// A closed set keeps no key. If a touch comes before the close, the close removes the key. If the
/// touch comes later, it inserts no key. The touch may allocate the shard.
#[test]
fn touch_races_close() {
    loom::model(|| {
        let shards = late(1);
        let closer = {
            let shards = shards.clone();
            thread::spawn(move || shards.close().iter().map(|closed| closed.0.len()).sum())
        };
        let touched = touch(&shards, A, 0, 2);
        let removed: usize = closer.join().unwrap();
        assert_eq!(removed == 1, touched == Inserted);
        assert!(shards.is_closed() && shards.len() == 0);
        assert_eq!(touch(&shards, B, 0, 2), Closed);
    });
}

/// A thread that has seen that the set is closed touches no key of the shards that the close has not reached.
#[test]
fn touches_race_close() {
    loom::model(|| {
        let shards = late(2);
        assert_eq!(touch(&shards, B, 0, 2), Inserted);
        let closer = {
            let shards = shards.clone();
            thread::spawn(move || shards.close().len())
        };
        let first = touch(&shards, A, 0, 2);
        let then = touch_existing(&shards, B, None, 2);
        assert!(first != Closed || then == Closed, "{first:?}, {then:?}");
        closer.join().unwrap();
    });
}

/// Exactly once: either a touch postpones the key, or the reaper returns it.
#[test]
fn touch_races_expire() {
    loom::model(|| {
        let shards = late(1);
        touch(&shards, A, 0, NOW);
        let reaper = {
            let shards = shards.clone();
            thread::spawn(move || sweep(&shards, NOW))
        };
        let touched = touch_existing(&shards, A, None, 8);
        let reaped = reaper.join().unwrap();
        assert_eq!(reaped.is_some(), touched == Absent, "{touched:?}");
    });
}

/// Never late: a thread inserts a key that a shed has overtaken. The reaper waits at most until the
/// key's deadline, or the insertion wakes the reaper.
#[test]
fn insertion_behind_a_shed_races_wait() {
    loom::model(|| {
        let shards = late(1);
        touch(&shards, A, 0, 9);
        assert_eq!(sweep(&shards, 9), Some(A));
        let until = wait_beside(
            &shards,
            [|shards| assert_eq!(touch(shards, B, 0, 2), Inserted)],
        );
        assert!(until <= 2, "waits until {until:?}");
        assert_eq!(sweep(&shards, 2), Some(B));
    });
}

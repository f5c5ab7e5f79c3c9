//! Keys and wakers that panic, or that call a set of one shard from within its own calls, which deadlocks under a lock.

use std::{
    cell::RefCell,
    hash::{Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::*;

/// The action of a key. Its argument is the name of the operation that the set has called.
type Action = Box<dyn FnMut(&'static str)>;

thread_local! {
    static ACTION: RefCell<Option<Action>> = const { RefCell::new(None) };
    static LOG: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Runs the action, unless the action itself makes the call.
fn call(operation: &'static str) {
    let Ok(Some(mut action)) = ACTION.try_with(|action| action.borrow_mut().take()) else {
        return;
    };
    LOG.with_borrow_mut(|log| log.push(operation));
    action(operation);
    ACTION.with_borrow_mut(|place| *place = Some(action));
}

/// Runs `body` while the keys run `action`. Returns the names of the operations.
fn acting(action: impl FnMut(&'static str) + 'static, body: impl FnOnce()) -> Vec<&'static str> {
    ACTION.set(Some(Box::new(action)));
    body();
    ACTION.set(None);
    LOG.take()
}

#[derive(Debug)]
struct Key(u32);

impl Clone for Key {
    fn clone(&self) -> Self {
        call("clone");
        Self(self.0)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        call("eq");
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        call("hash");
        self.0.hash(state);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        call("drop");
    }
}

/// Calls every method of a set, for an existing key and for an absent key.
fn use_set(set: &IdleSet<Key>, another: u32) {
    for key in [Key(another), Key(1_000_000)] {
        set.touch(&key);
        set.touch_with_timeout(&key, ms(1));
        set.touch_existing(&key);
        set.touch_existing_with_timeout(&key, ms(1));
        let _ = set.contains(&key);
        let _ = set.deadline(&key);
        drop(set.remove(&key));
    }
    let _ = (set.len(), set.is_closed(), format!("{set:?}"));
}

/// Runs `body` under the paused clock. It hangs if user code runs under a lock that it needs.
fn in_time(body: impl AsyncFnOnce() + Send + 'static) {
    does_not_hang(|| paused().block_on(body()));
}

#[test]
fn keys_may_use_the_set_when_they_are_hashed_cloned_and_dropped() {
    in_time(async || {
        let (set, mut reaper) = one_shard(ms(5));
        let other = set.clone();
        let comes_back = move |operation: &'static str| {
            // `eq` runs under the lock.
            if operation != "eq" {
                use_set(&other, 999);
            }
        };
        let seen = acting(comes_back.clone(), || {
            for n in 0..100 {
                assert_eq!(set.touch(&Key(n)), Inserted);
                assert_eq!(set.touch(&Key(n)), Present);
                assert_eq!(set.touch_with_timeout(&Key(n), ms(5)), Present);
            }
            for n in (0..100).step_by(2) {
                assert!(set.remove(&Key(n)).is_some());
            }
        });
        for operation in ["hash", "clone", "drop", "eq"] {
            assert!(seen.contains(&operation), "{operation}");
        }
        tokio::time::advance(ms(5)).await;
        let mut reaped = 0;
        let seen = acting(comes_back, || {
            while poll(&mut reaper, Waker::noop()).is_ready() {
                reaped += 1;
            }
            drop(reaper);
        });
        assert!(seen.contains(&"drop"));
        assert_eq!(reaped, 50);
    });
}

/// In the second round, the clone removes the key again. The set drops an unused clone without the lock.
#[test]
fn a_key_may_be_inserted_by_its_own_clone() {
    does_not_hang(|| {
        for keep in [true, false] {
            let (set, _reaper) = one_shard(secs(1));
            let other = set.clone();
            let mut once = true;
            let clones = move |operation| match operation {
                "clone" if std::mem::take(&mut once) => {
                    assert_eq!(other.touch(&Key(1)), Inserted);
                    assert!(keep || other.remove(&Key(1)).is_some());
                }
                "drop" => assert!(other.len() < 2),
                _ => {}
            };
            let mut touched = None;
            let seen = acting(clones, || touched = Some(set.touch(&Key(1))));
            assert!(seen.contains(&"drop"));
            assert_eq!(touched, Some(if keep { Present } else { Inserted }));
            assert_eq!(set.len(), 1);
        }
    });
}

/// While the set clones the key, another task inserts it with a later deadline. The touch must wake the reaper.
#[test]
fn a_key_whose_drop_panics_makes_no_other_key_late() {
    in_time(async || {
        let (set, mut reaper) = one_shard(secs(60));
        let (wakes, waker) = Wakes::new();
        set.touch(&Key(0));
        assert_pending!(poll(&mut reaper, &waker));
        let (key, other) = (Key(1), set.clone());
        let mut cloned = false;
        let action = move |operation| match operation {
            "clone" => cloned = other.touch(&Key(1)) == Inserted,
            "drop" if std::mem::take(&mut cloned) => panic!("the drop of a key"),
            _ => {}
        };
        let touch = || set.touch_with_timeout(&key, secs(1));
        acting(action, || {
            assert!(catch_unwind(AssertUnwindSafe(touch)).is_err());
        });
        ACTION.set(None);
        assert_eq!(wakes.count(), 1);
        assert_eq!(set.len(), 2);
    });
}

/// The clone of a key closes the set. The set then drops the clone without the lock.
#[test]
fn a_set_may_be_closed_by_a_clone() {
    does_not_hang(|| {
        let (set, reaper) = one_shard(secs(1));
        let (other, mut reaper) = (set.clone(), Some(reaper));
        let closes = move |operation| match operation {
            "clone" => drop(reaper.take()),
            "drop" => assert!(other.is_empty()),
            _ => {}
        };
        let mut touched = None;
        let seen = acting(closes, || touched = Some(set.touch(&Key(1))));
        assert!(seen.contains(&"drop"));
        assert_eq!(touched, Some(Closed));
        assert!(set.is_closed());
        // A closed set does not clone a key that it cannot insert.
        let seen = acting(|_| {}, || assert_eq!(set.touch(&Key(1)), Closed));
        assert!(seen.contains(&"hash") && !seen.contains(&"clone"));
    });
}

/// The set reads the clock under the lock, after the lookup. In this test, time passes during the lookup.
#[test]
fn a_timeout_counts_from_when_it_is_set() {
    paused().block_on(async {
        let start = Instant::now();
        let (set, _reaper) = one_shard(secs(1));
        set.touch(&Key(1));
        let advances = |operation| {
            if operation == "eq" {
                assert!(
                    task::spawn(tokio::time::advance(ms(10)))
                        .poll()
                        .is_pending()
                );
            }
        };
        acting(advances, || {
            assert_eq!(set.touch_with_timeout(&Key(1), secs(5)), Present);
        });
        assert_eq!(start.elapsed(), ms(10));
        assert_eq!(set.deadline(&Key(1)), Some(start + ms(5_010)));
    });
}

/// When the reaper drops the keys, the set is already closed.
#[test]
fn keys_may_use_the_set_when_the_reaper_is_dropped() {
    does_not_hang(|| {
        let (set, reaper) = IdleSet::builder(secs(1)).shards(3).build();
        for n in 0..100 {
            set.touch(&Key(n));
        }
        let other = set.clone();
        let drops = move |_| {
            assert!(other.is_closed());
            use_set(&other, 999);
        };
        acting(drops, || drop(reaper));
        assert!(set.is_empty());
    });
}

#[test]
fn wakers_may_use_the_set() {
    in_time(async || {
        let (set, mut reaper) = one_shard(secs(1));
        let action = || {
            let set = set.clone();
            move || use_set(&set, 999)
        };
        let (clone, wake) = (Hook::on_clone(action()), Hook::on_wake(action()));
        for hook in [clone, wake, Hook::on_drop(action())] {
            assert_pending!(poll(&mut reaper, &hook.waker()));
            // The touch wakes the first waker. Then another waker replaces it.
            set.touch_with_timeout(&Key(2), ms(500));
            assert_pending!(poll(&mut reaper, Waker::noop()));
            set.remove(&Key(2));
            assert!(hook.has_run());
            tokio::time::advance(secs(1)).await;
            settle().await;
            assert_pending!(poll(&mut reaper, Waker::noop()));
        }
    });
}

#[test]
fn the_last_handle_may_be_dropped_by_the_reapers_waker() {
    in_time(async || {
        let (set, mut reaper) = one_shard::<Key>(secs(1));
        let last = set.clone();
        let hook = Hook::on_wake(move || drop(last));
        assert_pending!(poll(&mut reaper, &hook.waker()));
        set.touch(&Key(1));
        assert!(hook.has_run());
        set.remove(&Key(1));
        drop(set);
        assert!(assert_ready!(poll(&mut reaper, Waker::noop())).is_none());

        let (set, mut reaper) = one_shard::<Key>(secs(1));
        let hook = Hook::on_drop(move || drop(set));
        assert_pending!(poll(&mut reaper, &hook.waker()));
        drop(reaper);
        assert!(hook.has_run());
    });
}

#[tokio::test(start_paused = true)]
async fn a_panicking_eq_leaves_all_as_it_was() {
    let (set, mut reaper) = one_shard(secs(1));
    for n in 0..1_000 {
        set.touch(&Key(n));
    }
    let uses: [&dyn Fn(&Key); 7] = [
        &|key| assert_eq!(set.touch(key), Present),
        &|key| assert_eq!(set.touch_with_timeout(key, secs(9)), Present),
        &|key| assert_eq!(set.touch_existing(key), Present),
        &|key| assert_eq!(set.touch_existing_with_timeout(key, secs(9)), Present),
        &|key| assert!(set.remove(key).is_some()),
        &|key| assert!(set.contains(key)),
        &|key| assert!(set.deadline(key).is_some()),
    ];
    sleep(ms(500)).await;
    let before = Instant::now() - ms(500);
    for key in uses {
        acting(
            |operation| assert_ne!(operation, "eq"),
            || {
                let panics = catch_unwind(AssertUnwindSafe(|| key(&Key(500))));
                assert!(panics.is_err());
            },
        );
        ACTION.take();
        assert_eq!(set.deadline(&Key(500)), Some(before + secs(1)));
        assert_eq!(set.len(), 1_000);
    }
    for n in 0..1_000 {
        assert_eq!(set.touch(&Key(n)), Present);
    }
    assert_eq!(set.touch(&Key(1_000)), Inserted);
    drop(set);
    let mut reaped: Vec<u32> = Vec::new();
    while let Some(key) = reaper.reap().await {
        reaped.push(key.0);
    }
    reaped.sort_unstable();
    assert!(reaped.iter().copied().eq(0..=1_000));
}

/// `Hash` and `Clone` run before the set locks or changes anything.
#[test]
fn a_panicking_hash_or_clone_leaves_all_as_it_was() {
    let (set, _reaper) = one_shard(secs(1));
    set.touch(&Key(1));
    for panics in ["hash", "clone"] {
        acting(
            move |operation| assert_ne!(operation, panics),
            || {
                let touch = AssertUnwindSafe(|| set.touch(&Key(2)));
                assert!(catch_unwind(touch).is_err());
            },
        );
        ACTION.take();
        assert_eq!(set.len(), 1);
        assert!(set.contains(&Key(1)) && !set.contains(&Key(2)));
    }
    assert_eq!(set.touch(&Key(2)), Inserted);
}

/// A second panic during the first would abort the process.
#[test]
fn the_drops_of_a_key_and_of_the_waker_may_both_panic() {
    paused().block_on(async {
        let (set, mut reaper) = one_shard(secs(1));
        set.touch(&Key(1));
        assert_pending!(poll(&mut reaper, &Hook::on_drop(quiet_panic).waker()));
        // The driver wakes the clone in the timer. The clone in the set is then the last one.
        sleep(secs(2)).await;
        let drops = AssertUnwindSafe(|| drop(reaper));
        acting(|_| quiet_panic(), || assert!(catch_unwind(drops).is_err()));
        ACTION.take();
        assert!(set.is_closed() && set.is_empty());
    });
}

/// A panic of the reaper's waker reaches neither a touch nor the drop of the last handle.
#[test]
fn a_panicking_waker_harms_no_touch() {
    paused().block_on(async {
        let (set, mut reaper) = one_shard(secs(1));
        let hook = Hook::on_wake(|| panic!("a waker"));
        assert_pending!(poll(&mut reaper, &hook.waker()));
        assert_eq!(set.touch(&Key(1)), Inserted);
        assert!(hook.has_run());
        assert!(set.contains(&Key(1)));
        assert_eq!(reaper.reap().await.map(|key| key.0), Some(1));

        let hook = Hook::on_wake(|| panic!("a waker"));
        assert_pending!(poll(&mut reaper, &hook.waker()));
        drop(set);
        assert!(hook.has_run());
        assert!(reaper.reap().await.is_none());
    });
}

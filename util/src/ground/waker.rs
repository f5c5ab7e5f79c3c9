//! Wakes wakers, and keeps them behind a lock. Wakers are user code.

use std::task::{Poll, Waker};

use super::{
    sync::{Mutex, lock},
    unwind,
};

/// Wakes a task, and catches the panic of its waker.
pub(crate) fn wake(waker: Waker) {
    unwind::contain(|| waker.wake());
}

/// Polls a value behind a lock. If `poll` returns pending, keeps a clone of `waker` in the `slot` of the
/// value.
///
/// Before the function returns pending, it calls `poll` and writes to the slot during one hold of the lock.
/// Another thread may make the value ready, and then take the waker under the lock. This thread finds the
/// waker of every pending poll.
///
/// The function does not hold the lock while it clones the waker or drops the replaced waker. It does not
/// clone the waker if the kept waker already wakes the same task.
pub(crate) fn poll_locked<T, R>(
    locked: &Mutex<T>,
    waker: &Waker,
    slot: impl Fn(&mut T) -> &mut Option<Waker>,
    poll: impl Fn(&mut T) -> Poll<R>,
) -> Poll<R> {
    // `clone` is declared before the guard, so it is dropped after the guard.
    let mut clone = None;
    loop {
        let mut value = lock(locked);
        if let Poll::Ready(result) = poll(&mut value) {
            drop(value);
            // A panic would lose the result.
            unwind::discard(clone);
            return Poll::Ready(result);
        }
        let kept = slot(&mut value);
        if kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            return Poll::Pending;
        }
        if let Some(clone) = clone.take() {
            let replaced = kept.replace(clone);
            drop(value);
            drop(replaced);
            return Poll::Pending;
        }
        drop(value);
        clone = Some(waker.clone());
    }
}

#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
        sync::Arc,
        task::Wake,
    };

    use cooked_waker::{IntoWaker, WakeRef};

    use super::*;

    type Locked = Mutex<(Poll<u32>, Option<Waker>)>;

    /// A waker that runs `on_clone` when it is cloned. Each clone runs `on_drop` when it is dropped.
    struct Hostile {
        on_clone: Arc<dyn Fn() + Send + Sync>,
        on_drop: Arc<dyn Fn() + Send + Sync>,
        is_clone: bool,
    }

    impl Clone for Hostile {
        fn clone(&self) -> Self {
            (self.on_clone)();
            Self {
                on_clone: self.on_clone.clone(),
                on_drop: self.on_drop.clone(),
                is_clone: true,
            }
        }
    }

    impl Drop for Hostile {
        fn drop(&mut self) {
            if self.is_clone {
                (self.on_drop)();
            }
        }
    }

    impl WakeRef for Hostile {
        fn wake_by_ref(&self) {}
    }

    impl cooked_waker::Wake for Hostile {}

    fn hostile(
        on_clone: impl Fn() + Send + Sync + 'static,
        on_drop: impl Fn() + Send + Sync + 'static,
    ) -> Waker {
        Box::new(Hostile {
            on_clone: Arc::new(on_clone),
            on_drop: Arc::new(on_drop),
            is_clone: false,
        })
        .into_waker()
    }

    fn pending() -> Arc<Locked> {
        Arc::new(Mutex::new((Poll::Pending, None)))
    }

    fn poll(locked: &Locked, waker: &Waker) -> Poll<u32> {
        poll_locked(locked, waker, |(_, slot)| slot, |(value, _)| *value)
    }

    fn panics<R>(act: impl FnOnce() -> R) -> bool {
        catch_unwind(AssertUnwindSafe(act)).is_err()
    }

    struct Plain;

    impl Wake for Plain {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn an_equal_waker_is_not_cloned() {
        let locked = pending();
        let plain = Arc::new(Plain);
        let waker = Waker::from(plain.clone());
        for _ in 0..3 {
            assert!(poll(&locked, &waker).is_pending());
            assert_eq!(
                Arc::strong_count(&plain),
                3,
                "the Arc, its waker and one clone hold it"
            );
        }
        assert!(poll(&locked, Waker::noop()).is_pending());
        assert_eq!(Arc::strong_count(&plain), 2);
        lock(&locked).0 = Poll::Ready(7);
        assert_eq!(poll(&locked, &waker), Poll::Ready(7));
        assert_eq!(
            Arc::strong_count(&plain),
            2,
            "a ready poll must not keep the waker"
        );
    }

    /// If `poll_locked` cloned or dropped the waker under the lock, this test would hang.
    #[test]
    fn a_waker_may_take_the_lock_when_it_is_cloned_or_dropped() {
        let locked = pending();
        let takes_the_lock = || {
            let locked = locked.clone();
            move || drop(lock(&locked))
        };
        let waker = hostile(takes_the_lock(), takes_the_lock());
        for _ in 0..3 {
            assert!(poll(&locked, &waker).is_pending());
        }
        let other = Waker::from(Arc::new(Plain));
        assert!(poll(&locked, &other).is_pending());
        let kept = lock(&locked).1.take();
        assert!(kept.unwrap().will_wake(&other));
    }

    /// The waker makes the value ready while it is cloned. At that moment, the slot contains no waker.
    #[test]
    fn what_is_ready_once_the_waker_is_cloned_is_returned() {
        let locked = pending();
        let ends = {
            let locked = locked.clone();
            move || lock(&locked).0 = Poll::Ready(7)
        };
        let looks_on = {
            let locked = locked.clone();
            move || drop(lock(&locked))
        };
        assert_eq!(
            poll(&locked, &hostile(ends.clone(), looks_on)),
            Poll::Ready(7)
        );
        assert!(lock(&locked).1.is_none());

        lock(&locked).0 = Poll::Pending;
        let panicking = || resume_unwind(Box::new("a waker"));
        assert_eq!(poll(&locked, &hostile(ends, panicking)), Poll::Ready(7));
    }

    #[test]
    fn a_panic_of_a_waker_leaves_the_slot_whole() {
        let locked = pending();
        let panicking = || resume_unwind(Box::new("a waker"));
        let other = Waker::from(Arc::new(Plain));
        assert!(poll(&locked, &other).is_pending());
        let waker = hostile(panicking, || {});
        assert!(panics(|| poll(&locked, &waker)));
        let kept = lock(&locked).1.clone();
        assert!(kept.unwrap().will_wake(&other));

        let waker = hostile(|| {}, panicking);
        assert!(poll(&locked, &waker).is_pending());
        assert!(panics(|| poll(&locked, &other)));
        let kept = lock(&locked).1.clone();
        assert!(
            kept.unwrap().will_wake(&other),
            "the waker replaces the hostile waker"
        );
    }

    #[test]
    fn a_waker_that_panics_when_it_is_woken_is_caught() {
        struct Panicking;
        impl Wake for Panicking {
            fn wake(self: Arc<Self>) {
                resume_unwind(Box::new("a waker"));
            }
        }
        wake(Arc::new(Panicking).into());
    }
}

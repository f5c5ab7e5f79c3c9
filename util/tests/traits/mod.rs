//! The traits of the services' types, which the compiler checks: a change of a line here breaks users. And what `Debug`
//! shows: no keys and no values.

#![cfg(all(feature = "delay_queue", feature = "idle", feature = "schedule"))]

use std::{
    cell::Cell,
    error::Error,
    fmt::Debug,
    future::Future,
    hash::{Hash, RandomState},
    marker::{PhantomData, PhantomPinned},
    ops::ControlFlow,
    panic::{RefUnwindSafe, UnwindSafe},
    pin::Pin,
    rc::Rc,
};

use futures_core::Stream;
use static_assertions::{assert_impl_all, assert_not_impl_any};
use tokio_wheel_util::{
    delay_queue::{DelayQueue, Expired, Key},
    idle::{self, IdleSet, Reaper, Touched},
    schedule::{
        self, CancelHandle, RunOutput, ScheduleError, ScheduledTask, Scheduler, TaskError,
        Unstarted,
    },
};

use crate::support::secs;

/// A type without any auto trait but `Unpin`.
type Nothing = PhantomData<(Rc<Cell<u8>>, *mut dyn FnMut())>;
/// A future that is `Send` but need not be `Sync`.
type NotSync = Pin<Box<dyn Future<Output = ()> + Send>>;
struct Opaque;

macro_rules! all_auto_traits {
    ($($type:ty),*) => {
        $(assert_impl_all!($type: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);)*
    };
}

all_auto_traits!(DelayQueue<u8>, Expired<u8>, Key);
assert_impl_all!(DelayQueue<Cell<u8>>: Send, Unpin, UnwindSafe);
assert_not_impl_any!(DelayQueue<Cell<u8>>: Sync, RefUnwindSafe);
assert_impl_all!(DelayQueue<Nothing>: Unpin);
assert_not_impl_any!(DelayQueue<Nothing>: Send, Sync, UnwindSafe, RefUnwindSafe);
assert_impl_all!(DelayQueue<PhantomPinned>: Unpin);
assert_impl_all!(DelayQueue<u8>: Default, Stream<Item = Expired<u8>>);
assert_not_impl_any!(DelayQueue<u8>: Clone);
assert_impl_all!(Key: Copy, Debug, Eq, Hash);

all_auto_traits!(
    IdleSet<u8>,
    IdleSet<Cell<u8>>,
    Reaper<u8>,
    idle::Builder<u8>
);
assert_impl_all!(IdleSet<Nothing>: Unpin, UnwindSafe, RefUnwindSafe);
assert_not_impl_any!(IdleSet<Nothing>: Send, Sync);
assert_impl_all!(Reaper<Nothing>: Unpin, UnwindSafe, RefUnwindSafe);
assert_not_impl_any!(Reaper<Nothing>: Send, Sync);
assert_not_impl_any!(IdleSet<u8, Rc<u8>>: Send, Sync);
assert_impl_all!(Reaper<u8>: Stream<Item = u8>);
assert_not_impl_any!(Reaper<u8>: Clone);
assert_impl_all!(Touched: Copy, Debug, Eq, Hash);
// These traits put no bounds on the key and the hasher.
assert_impl_all!(IdleSet<Opaque, Opaque>: Clone, Debug, Unpin);
assert_impl_all!(Reaper<PhantomPinned>: Unpin, Debug);

all_auto_traits!(Scheduler, schedule::Builder, TaskError, CancelHandle);
all_auto_traits!(
    ScheduledTask<u8>,
    ScheduledTask<Cell<u8>>,
    ScheduledTask<PhantomPinned>
);
// The error is `Sync` even if the future in it is not, because many users require `Sync` errors.
all_auto_traits!(ScheduleError<u8>, ScheduleError<NotSync>);
assert_impl_all!(ScheduleError<Nothing>: Error, Unpin, UnwindSafe, RefUnwindSafe);
assert_not_impl_any!(ScheduleError<Nothing>: Send, Sync);
assert_impl_all!(Unstarted: Send, Unpin);
assert_not_impl_any!(Unstarted: Clone, Sync, UnwindSafe, RefUnwindSafe);
assert_impl_all!(CancelHandle: Clone);
assert_not_impl_any!(ScheduledTask<u8>: Clone);
assert_impl_all!(TaskError: Error);
assert_impl_all!((): RunOutput<Output = ()>);
assert_impl_all!(ControlFlow<u8>: RunOutput<Output = u8>);
assert_not_impl_any!(u8: RunOutput);

#[test]
fn debug_shows_numbers_alone() {
    let mut queue = DelayQueue::new();
    queue.insert(Opaque, secs(1));
    let expected = "DelayQueue { len: 1, capacity: 256, .. }";
    assert_eq!(format!("{queue:?}"), expected);
    let builder = IdleSet::<String>::builder(secs(1)).hasher(RandomState::new());
    let (set, reaper) = builder.build();
    set.touch("a");
    assert_eq!(format!("{set:?}"), "IdleSet { timeout: 1s, len: 1, .. }");
    assert_eq!(format!("{reaper:?}"), "Reaper { len: 1, .. }");
}

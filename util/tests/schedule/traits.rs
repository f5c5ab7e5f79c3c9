//! The auto traits of the public items.

use std::{cell::Cell, error::Error, marker::PhantomPinned};

use static_assertions::{assert_impl_all, assert_not_impl_any};
use tokio_wheel_util::schedule::{Builder, CancelHandle, RunOutput};

use super::*;
use crate::support::auto_traits::{Nothing, auto_traits};

assert_impl_all!(CancelHandle: Clone);
assert_not_impl_any!(ScheduledTask<u8>: Clone);
assert_not_impl_any!(Unstarted: Clone);
assert_impl_all!(TaskError: Error);
assert_impl_all!(ScheduleError<Nothing>: Error);
assert_impl_all!((): RunOutput<Output = ()>);
assert_impl_all!(ControlFlow<u8>: RunOutput<Output = u8>);
assert_not_impl_any!(u8: RunOutput);

/// A future that is `Send` but need not be `Sync`.
type NotSync = Pin<Box<dyn Future<Output = ()> + Send>>;

auto_traits! {
    /// The error is `Sync` even if the future in it is not, because many users require `Sync` errors.
    of_schedule {
    //   Send Sync Unpin UnwindSafe RefUnwindSafe
        "1 1 1 1 1" Scheduler,
        "1 1 1 1 1" Builder,
        "1 1 1 1 1" TaskError,
        "1 1 1 1 1" ScheduleError<u8>,
        "1 1 1 1 1" ScheduleError<NotSync>,
        "0 0 1 1 1" ScheduleError<Nothing>,
        "1 1 1 1 1" ScheduledTask<u8>,
        "1 1 1 1 1" ScheduledTask<Cell<u8>>,
        "1 1 1 1 1" ScheduledTask<PhantomPinned>,
        "1 0 1 0 0" Unstarted,
        "1 1 1 1 1" CancelHandle,
    }
}

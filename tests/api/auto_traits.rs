//! The auto traits and the signatures of the public items.

use std::{cell::Cell, error::Error, future::Future, future::Ready, io, marker::PhantomPinned};

use static_assertions::{assert_impl_all, assert_not_impl_any, assert_type_eq_all};
use tokio_wheel::{
    Builder, Duration, Histogram, Instant, Interval, Metrics, MissedTickBehavior, Sleep, Timeout,
    Timer,
    error::{BuildError, Elapsed, TryCurrentError},
};

use crate::support::auto_traits::{Nothing, auto_traits};

assert_impl_all!(Sleep: Future<Output = ()>);
assert_impl_all!(Timeout<Ready<()>>: Future<Output = Result<(), Elapsed>>);
assert_impl_all!(Timer: Clone);
assert_impl_all!(Builder: Clone);
assert_impl_all!(Metrics: Clone);
assert_not_impl_any!(Metrics: Copy);
assert_impl_all!(Histogram: Clone, Eq);
assert_not_impl_any!(Sleep: Clone);

assert_impl_all!(Elapsed: Error, Clone, Eq, Into<io::Error>);
const _: () = assert!(size_of::<Elapsed>() == 0);
assert_impl_all!(BuildError: Error);
assert_impl_all!(TryCurrentError: Error);

auto_traits! {
    the_macro_itself {
        "1 1 1 1 1" u8,
        "1 0 1 1 0" Cell<u8>,
        "0 0 1 0 0" Nothing,
        "1 1 0 1 1" PhantomPinned,
    }
}

auto_traits! {
    core_types {
    //   Send Sync Unpin UnwindSafe RefUnwindSafe
        "1 1 1 1 1" Sleep,
        "1 1 1 1 1" Timeout<Ready<()>>,
        "0 0 1 0 0" Timeout<Ready<Nothing>>,
        "1 1 0 1 1" Timeout<PhantomPinned>,
        "1 1 1 1 1" Interval,
        "1 1 1 1 1" Timer,
        "1 1 1 1 1" Builder,
        "1 1 1 1 1" Metrics,
        "1 1 1 1 1" Histogram,
    }
}

auto_traits! {
    errors {
        "1 1 1 1 1" Elapsed,
        "1 1 1 1 1" BuildError,
        "1 1 1 1 1" TryCurrentError,
    }
}

// These are tokio's own types, so values can go to and from code that uses tokio's timers.
assert_type_eq_all!(Instant, tokio::time::Instant);
assert_type_eq_all!(MissedTickBehavior, tokio::time::MissedTickBehavior);
assert_type_eq_all!(Duration, std::time::Duration);

fn send<T: Send>(value: T) -> T {
    value
}

#[test]
fn futures_of_async_methods_are_send() {
    let mut interval = tokio_wheel::interval(Duration::from_secs(1));
    drop(send(interval.tick()));
    #[cfg(feature = "test-util")]
    drop(send(tokio_wheel::advance(Duration::ZERO)));
}

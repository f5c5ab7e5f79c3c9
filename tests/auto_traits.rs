//! Auto traits and signatures, checked by the compiler.

use std::{
    cell::Cell,
    error::Error,
    fmt::{Debug, Display},
    future::Future,
    future::Ready,
    hash::Hash,
    io,
    marker::PhantomPinned,
    ops::ControlFlow,
    panic::{RefUnwindSafe, UnwindSafe},
    pin::Pin,
    rc::Rc,
};

use static_assertions::{assert_impl_all, assert_not_impl_any, assert_type_eq_all};
use tokio_wheel::{
    Builder, Duration, Instant, Interval, Metrics, MissedTickBehavior, Sleep, TimeLeft, Timeout,
    Timer,
    error::{BuildError, Elapsed, ScheduleError, TaskError, TryCurrentError},
    schedule::{CancelHandle, RunOutput, ScheduledTask, Unstarted},
};

type NotSend = Ready<Rc<()>>;

// tokio's `Sleep` is `!Unpin`; ours needs no pinning.
assert_impl_all!(Sleep: Send, Sync, Unpin, Debug, Future<Output = ()>);
assert_not_impl_any!(Sleep: Clone);

assert_impl_all!(Timeout<Ready<()>>: Send, Sync, Unpin, Debug);
assert_impl_all!(Timeout<Ready<()>>: Future<Output = Result<(), Elapsed>>);
assert_not_impl_any!(Timeout<NotSend>: Send, Sync);
assert_impl_all!(Timeout<NotSend>: Unpin);
assert_not_impl_any!(Timeout<PhantomPinned>: Unpin);

assert_impl_all!(Interval: Send, Sync, Unpin, Debug);
assert_impl_all!(Timer: Send, Sync, Unpin, Clone, Debug);
assert_impl_all!(Builder: Send, Sync, Unpin, Clone, Debug);
assert_impl_all!(Metrics: Send, Sync, Unpin, Copy, Debug);
assert_impl_all!(TimeLeft: Send, Sync, Unpin, Clone, PartialEq, Debug, Display);

assert_impl_all!(Elapsed: Send, Sync, Unpin, Error, PartialEq, Into<io::Error>);
assert_impl_all!(BuildError: Send, Sync, Unpin, Error, Clone, PartialEq);
assert_impl_all!(TryCurrentError: Send, Sync, Unpin, Error);

// A handle holds no part of its task, which is on another thread: not even an output that may be
// sent but not shared makes a difference.
assert_impl_all!(ScheduledTask<Cell<u8>>: Send, Sync, Unpin, Debug);
assert_impl_all!(ScheduledTask<PhantomPinned>: Send, Sync, Unpin, Debug);
assert_impl_all!(ScheduledTask<u8>: Future<Output = Result<u8, TaskError>>);
assert_not_impl_any!(ScheduledTask<u8>: Clone);

// It holds a future that may be sent but not shared.
assert_impl_all!(Unstarted: Send, Unpin, Debug, Future<Output = ()>);
assert_not_impl_any!(Unstarted: Sync, Clone);

assert_impl_all!(CancelHandle: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe, Clone, Debug);
assert_impl_all!(ScheduledTask<Cell<u8>>: UnwindSafe, RefUnwindSafe);

assert_impl_all!(TaskError: Send, Sync, Unpin, Error);
assert_impl_all!(ScheduleError<PhantomPinned>: Send, Sync, Error);
// It may be shared, whatever it carries: errors should be.
type NotSync = Pin<Box<dyn Future<Output = ()> + Send>>;
assert_not_impl_any!(NotSync: Sync);
assert_impl_all!(ScheduleError<NotSync>: Send, Sync, Error);
assert_impl_all!(ScheduleError<NotSend>: Unpin, Error);
assert_not_impl_any!(ScheduleError<NotSend>: Send, Sync);

assert_impl_all!((): RunOutput<Output = ()>);
assert_impl_all!(ControlFlow<u8>: RunOutput<Output = u8>);
assert_not_impl_any!(u8: RunOutput);

#[cfg(feature = "http")]
mod http_layers {
    use super::*;
    use tokio_wheel::http::{
        BodyLimits, Deadline, GrpcTimeoutError, LimitExceeded, RequestBodyTimeout,
        RequestBodyTimeoutLayer, ResponseBodyFuture, ResponseBodyTimeout, ResponseBodyTimeoutLayer,
        ResponseFuture, Timeout, TimeoutBody, TimeoutLayer,
    };

    // axum asks this of a layer and of its service.
    assert_impl_all!(TimeoutLayer: Send, Sync, Unpin, Clone, Debug);
    assert_impl_all!(RequestBodyTimeoutLayer: Send, Sync, Unpin, Clone, Debug);
    assert_impl_all!(ResponseBodyTimeoutLayer: Send, Sync, Unpin, Clone, Debug);
    assert_impl_all!(Timeout<()>: Send, Sync, Unpin, Clone, Debug);
    assert_impl_all!(RequestBodyTimeout<()>: Send, Sync, Unpin, Clone, Debug);
    assert_impl_all!(ResponseBodyTimeout<()>: Send, Sync, Unpin, Clone, Debug);

    assert_impl_all!(ResponseFuture<Ready<()>>: Send, Sync, Unpin, Debug);
    assert_impl_all!(ResponseBodyFuture<Ready<()>>: Send, Sync, Unpin, Debug);
    assert_not_impl_any!(ResponseFuture<PhantomPinned>: Unpin);
    assert_not_impl_any!(ResponseFuture<NotSend>: Send, Sync);
    assert_not_impl_any!(ResponseBodyFuture<NotSend>: Send, Sync);

    // tower-http's body is `!Unpin`, whatever is inside.
    assert_impl_all!(TimeoutBody<()>: Send, Sync, Unpin, Debug, Default);
    assert_not_impl_any!(TimeoutBody<PhantomPinned>: Unpin);
    assert_not_impl_any!(TimeoutBody<NotSend>: Send, Sync);

    assert_impl_all!(BodyLimits: Send, Sync, Copy, Default, PartialEq, Debug);
    assert_impl_all!(Deadline: Send, Sync, Copy, Ord, Hash, Debug);
    assert_impl_all!(LimitExceeded: Send, Sync, Copy, Eq, Hash, Error, Into<io::Error>);
    assert_impl_all!(GrpcTimeoutError: Send, Sync, Clone, Eq, Error);
}

// Re-exported, so that values go to and from code that still uses tokio's.
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

/// Whatever is scheduled, awaiting it can be spawned.
#[test]
fn an_awaited_handle_is_send() {
    async fn awaits(task: ScheduledTask<Cell<u8>>) -> Result<Cell<u8>, TaskError> {
        task.await
    }
    fn is_send<F: Future + Send + 'static>(_: fn(ScheduledTask<Cell<u8>>) -> F) {}
    is_send(awaits);
}

/// A binding with the type of tokio's item, its own types exchanged: a change of one `use` line.
#[test]
fn signatures_are_those_of_tokio_time() {
    type Inner = Ready<u8>;
    let _: fn(Duration) -> Sleep = tokio_wheel::sleep;
    let _: fn(Instant) -> Sleep = tokio_wheel::sleep_until;
    let _: fn(Duration, Inner) -> Timeout<Inner> = tokio_wheel::timeout;
    let _: fn(Instant, Inner) -> Timeout<Inner> = tokio_wheel::timeout_at;
    let _: fn(Duration) -> Interval = tokio_wheel::interval;
    let _: fn(Instant, Duration) -> Interval = tokio_wheel::interval_at;

    let _: fn(&Sleep) -> Instant = Sleep::deadline;
    let _: fn(&Sleep) -> bool = Sleep::is_elapsed;
    let _: fn(Pin<&mut Sleep>, Instant) = Sleep::reset;

    let _: fn(&Timeout<Inner>) -> &Inner = Timeout::get_ref;
    let _: fn(&mut Timeout<Inner>) -> &mut Inner = Timeout::get_mut;
    let _: fn(Timeout<Inner>) -> Inner = Timeout::into_inner;

    let _: fn(&mut Interval) = Interval::reset;
    let _: fn(&mut Interval) = Interval::reset_immediately;
    let _: fn(&mut Interval, Duration) = Interval::reset_after;
    let _: fn(&mut Interval, Instant) = Interval::reset_at;
    let _: fn(&Interval) -> Duration = Interval::period;
    let _: fn(&Interval) -> MissedTickBehavior = Interval::missed_tick_behavior;
    let _: fn(&mut Interval, MissedTickBehavior) = Interval::set_missed_tick_behavior;
}

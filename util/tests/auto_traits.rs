//! The auto traits of the public types.

use std::{
    cell::Cell,
    future::Ready,
    marker::{PhantomData, PhantomPinned},
    panic::{RefUnwindSafe, UnwindSafe},
    rc::Rc,
};

/// A type argument without any auto trait but `Unpin`.
type Nothing = PhantomData<(Rc<Cell<u8>>, *mut dyn FnMut())>;

/// The constant of a type that does not implement the trait in [`implements`].
trait Otherwise {
    const IMPLEMENTS: bool = false;
}

impl<T: ?Sized> Otherwise for T {}

/// Returns whether a type implements a trait.
macro_rules! implements {
    ($type:ty: $trait:ident) => {{
        struct Type<T: ?Sized>(#[allow(dead_code, reason = "for `T`")] PhantomData<T>);
        #[allow(dead_code, reason = "other types have the constant of `Otherwise`")]
        impl<T: ?Sized + $trait> Type<T> {
            const IMPLEMENTS: bool = true;
        }
        <Type<$type>>::IMPLEMENTS
    }};
}

/// Compares the auto traits of each type with a row of five bits.
///
/// A type has 1 for each trait that it implements and 0 for each other trait. A change of a row is a
/// breaking change of the crate.
macro_rules! auto_traits {
    ($(#[$attribute:meta])* $test:ident { $($expected:literal $type:ty,)* }) => {
        $(#[$attribute])*
        #[test]
        fn $test() {
            let mut wrong = Vec::new();
            $(
                let found: String = [
                    implements!($type: Send),
                    implements!($type: Sync),
                    implements!($type: Unpin),
                    implements!($type: UnwindSafe),
                    implements!($type: RefUnwindSafe),
                ]
                .map(|implements| if implements { "1" } else { "0" })
                .join(" ");
                if found != $expected {
                    wrong.push(format!("{}: {found}, expected {}", stringify!($type), $expected));
                }
            )*
            assert!(wrong.is_empty(), "Send Sync Unpin UnwindSafe RefUnwindSafe of {wrong:#?}");
        }
    };
}

#[cfg(feature = "stream")]
mod streams {
    use super::*;
    use tokio_stream::{Empty, Iter};
    use tokio_wheel_util::stream::{
        ChunksTimeout, IntervalStream, Throttle, Timeout, TimeoutRepeating,
    };

    type NotSend = Iter<std::vec::IntoIter<Nothing>>;

    auto_traits! {
        stream_adapters {
            "1 1 1 1 1" Timeout<Empty<u8>>,
            "1 1 1 1 1" TimeoutRepeating<Empty<u8>>,
            "1 1 1 1 1" Throttle<Empty<u8>>,
            "1 1 1 1 1" ChunksTimeout<Empty<u8>>,
            "1 1 1 1 1" IntervalStream,
            "0 0 1 0 0" Timeout<NotSend>,
            "0 0 1 0 0" TimeoutRepeating<NotSend>,
            "0 0 1 0 0" Throttle<NotSend>,
            "0 0 1 0 0" ChunksTimeout<NotSend>,
            "1 1 0 1 1" Timeout<PhantomPinned>,
            "1 1 0 1 1" TimeoutRepeating<PhantomPinned>,
            "1 1 0 1 1" Throttle<PhantomPinned>,
        }
    }
}

#[cfg(feature = "io")]
mod io_types {
    use super::*;
    use tokio_wheel_util::io::{LimitExceeded, Limits, MinRate, TimeoutStream};

    auto_traits! {
        io_limits {
            "1 1 1 1 1" TimeoutStream<u8>,
            "0 0 1 0 0" TimeoutStream<Nothing>,
            "1 1 0 1 1" TimeoutStream<PhantomPinned>,
            "1 1 1 1 1" Limits,
            "1 1 1 1 1" MinRate,
            "1 1 1 1 1" LimitExceeded,
        }
    }
}

#[cfg(feature = "hyper")]
mod hyper_types {
    use super::*;
    use tokio_wheel_util::hyper::{
        ConnectionGuard, Connections, Counted, CountedBody, CountedFuture, Counts, Drive, Ended,
        Limits, OpenError, Reason, WheelTimer,
    };

    auto_traits! {
        hyper_connections {
            "1 1 1 1 1" Connections,
            "1 1 1 1 1" Counted<u8>,
            "1 1 1 1 1" CountedBody<u8>,
            "1 1 1 1 1" CountedFuture<Ready<()>>,
            "1 1 1 1 1" Counts,
            "1 1 1 1 1" Drive<u8>,
            "1 1 1 1 1" Ended<u8>,
            "1 1 1 1 1" ConnectionGuard,
            "1 1 1 1 1" Limits,
            "1 1 1 1 1" OpenError,
            "1 1 1 1 1" Reason,
            "1 1 1 1 1" WheelTimer,
            "0 0 1 0 0" Drive<Nothing>,
            "1 1 0 1 1" Drive<PhantomPinned>,
        }
    }
}

#[cfg(feature = "tower")]
mod tower_types {
    use super::*;
    use tokio_wheel_util::tower::{ResponseFuture, Timeout, TimeoutLayer};

    auto_traits! {
        tower_layers {
            "1 1 1 1 1" TimeoutLayer,
            "1 1 1 1 1" Timeout<u8>,
            "1 1 1 1 1" ResponseFuture<Ready<()>>,
            "0 0 1 0 0" Timeout<Nothing>,
            "0 0 1 0 0" ResponseFuture<Ready<Nothing>>,
            "1 1 0 1 1" ResponseFuture<PhantomPinned>,
        }
    }
}

#[cfg(feature = "http")]
mod http_layers {
    use std::{error::Error, fmt::Debug, io};

    use static_assertions::{assert_impl_all, assert_not_impl_any};

    use super::*;
    use tokio_wheel_util::http::{
        BodyLimits, Deadline, LimitExceeded, RequestBodyTimeout, RequestBodyTimeoutLayer,
        ResponseBodyFuture, ResponseBodyTimeout, ResponseBodyTimeoutLayer, ResponseFuture, Timeout,
        TimeoutBody, TimeoutLayer,
    };

    type NotSend = Ready<Rc<()>>;

    auto_traits! {
        http_types {
            "1 1 1 1 1" TimeoutLayer,
            "1 1 1 1 1" RequestBodyTimeoutLayer,
            "1 1 1 1 1" ResponseBodyTimeoutLayer,
            "1 1 1 1 1" Timeout<()>,
            "1 1 1 1 1" RequestBodyTimeout<()>,
            "1 1 1 1 1" ResponseBodyTimeout<()>,
            "1 1 1 1 1" ResponseFuture<Ready<()>>,
            "1 1 1 1 1" ResponseBodyFuture<Ready<()>>,
            "1 1 1 1 1" TimeoutBody<()>,
            "1 1 1 1 1" BodyLimits,
            "1 1 1 1 1" Deadline,
            "1 1 1 1 1" LimitExceeded,

            "0 0 1 0 0" ResponseFuture<Ready<Nothing>>,
            "0 0 1 0 0" ResponseBodyFuture<Ready<Nothing>>,
            "0 0 1 0 0" TimeoutBody<Nothing>,
            "1 1 0 1 1" ResponseFuture<PhantomPinned>,
            "1 1 0 1 1" TimeoutBody<PhantomPinned>,
        }
    }

    // axum requires these traits of a layer and of its service.
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

    // tower-http's body is always `!Unpin`.
    assert_impl_all!(TimeoutBody<()>: Send, Sync, Unpin, Debug, Default);
    assert_not_impl_any!(TimeoutBody<PhantomPinned>: Unpin);
    assert_not_impl_any!(TimeoutBody<NotSend>: Send, Sync);

    assert_impl_all!(BodyLimits: Send, Sync, Copy, Default, PartialEq, Debug);
    assert_impl_all!(Deadline: Send, Sync, Copy, Ord, std::hash::Hash, Debug);
    assert_impl_all!(LimitExceeded: Send, Sync, Copy, Eq, std::hash::Hash, Error, Into<io::Error>);
}

//! Tests `tokio_wheel_util::hyper` with hyper's own servers and clients.
//!
//! Most tests run under the paused clock, over streams in memory, with each of hyper's protocols. Their instants are
//! exact. A file tests the module of the same name, apart from `stages.rs`.

#![cfg(feature = "hyper")]

#[path = "../../../tests/support/mod.rs"]
mod support;

mod server;

mod connections;
mod drive;
mod recheck;
mod requests;
mod stages;
mod timer;
mod turns;

use std::fmt::{Debug, Display};

use static_assertions::{assert_impl_all, assert_not_impl_any};
use tokio_wheel_util::hyper::{
    ConnectionGuard, Connections, Counted, CountedBody, CountedFuture, Counts, Drive, Ended,
    Limits, OpenError, Reason,
};

assert_impl_all!(Connections: Send, Sync, Unpin, Clone, Debug);
assert_impl_all!(Limits: Send, Sync, Unpin, Clone, Debug, Default, PartialEq);
assert_impl_all!(ConnectionGuard: Send, Sync, Unpin, Debug);
assert_not_impl_any!(ConnectionGuard: Clone);
assert_impl_all!(Drive<()>: Send, Sync, Unpin, Debug);
assert_not_impl_any!(Drive<*const ()>: Send, Sync);
assert_not_impl_any!(Drive<std::marker::PhantomPinned>: Unpin);
assert_impl_all!(Counted<()>: Send, Sync, Unpin, Clone, Debug);
assert_impl_all!(CountedFuture<()>: Send, Sync, Unpin, Debug);
assert_impl_all!(CountedBody<()>: Send, Sync, Unpin, Debug);
assert_impl_all!(Ended<()>: Send, Sync, Unpin, Debug);
assert_impl_all!(Counts: Send, Sync, Unpin, Clone, Debug, Eq);
assert_not_impl_any!(Counts: Copy);
assert_impl_all!(Reason: Send, Sync, Unpin, Copy, Debug, Display, Eq, std::hash::Hash);
assert_impl_all!(OpenError: Send, Sync, Unpin, Copy, Debug, Eq, std::error::Error);

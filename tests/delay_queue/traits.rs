//! Auto traits and signatures, checked by the compiler.

use std::{fmt::Debug, hash::Hash, marker::PhantomPinned, rc::Rc};

use super::*;
use futures_core::FusedStream;
use static_assertions::{assert_impl_all, assert_not_impl_any};

assert_impl_all!(DelayQueue<u8>: Send, Sync, Unpin, Debug, Default, Stream<Item = delay_queue::Expired<u8>>, FusedStream);
assert_impl_all!(DelayQueue<PhantomPinned>: Unpin);
assert_not_impl_any!(DelayQueue<u8>: Clone);
assert_not_impl_any!(DelayQueue<Rc<()>>: Send, Sync);
assert_not_impl_any!(DelayQueue<std::cell::Cell<u8>>: Sync);
assert_impl_all!(DelayQueue<std::cell::Cell<u8>>: Send);

assert_impl_all!(delay_queue::Key: Send, Sync, Unpin, Copy, Debug, Eq, Hash);
assert_impl_all!(delay_queue::Expired<u8>: Send, Sync, Unpin, Debug);
assert_not_impl_any!(delay_queue::Expired<Rc<()>>: Send, Sync);

/// Binds each function to its type, which must be the type in tokio-util as well.
macro_rules! assert_signatures {
    ($($time:ident)::+) => {{
        use $($time)::+::{DelayQueue, delay_queue::{Expired, Key}};
        type Queue = DelayQueue<String>;

        let _: fn() -> Queue = DelayQueue::new;
        let _: fn(usize) -> Queue = DelayQueue::with_capacity;
        let _: fn(&mut Queue, String, Instant) -> Key = DelayQueue::insert_at;
        let _: fn(&mut Queue, String, Duration) -> Key = DelayQueue::insert;
        let _: for<'a> fn(&mut Queue, &mut Context<'a>) -> Poll<Option<Expired<String>>> =
            DelayQueue::poll_expired;
        let _: fn(&Queue, &Key) -> Instant = DelayQueue::deadline;
        let _: fn(&mut Queue, &Key) -> Expired<String> = DelayQueue::remove;
        let _: fn(&mut Queue, &Key) -> Option<Expired<String>> = DelayQueue::try_remove;
        let _: fn(&mut Queue, &Key, Instant) = DelayQueue::reset_at;
        let _: fn(&mut Queue, &Key, Duration) = DelayQueue::reset;
        let _: fn(&mut Queue) = DelayQueue::shrink_to_fit;
        let _: fn(&mut Queue) = DelayQueue::compact;
        let _: fn(&Queue) -> Option<Key> = DelayQueue::peek;
        let _: fn(&mut Queue) = DelayQueue::clear;
        let _: fn(&Queue) -> usize = DelayQueue::capacity;
        let _: fn(&Queue) -> usize = DelayQueue::len;
        let _: fn(&mut Queue, usize) = DelayQueue::reserve;
        let _: fn(&Queue) -> bool = DelayQueue::is_empty;

        let _: fn(&Expired<String>) -> &String = Expired::get_ref;
        let _: fn(&mut Expired<String>) -> &mut String = Expired::get_mut;
        let _: fn(Expired<String>) -> String = Expired::into_inner;
        let _: fn(&Expired<String>) -> Instant = Expired::deadline;
        let _: fn(&Expired<String>) -> Key = Expired::key;
    }};
}

#[test]
fn signatures_are_those_of_tokio_util() {
    assert_signatures!(tokio_util::time);
    assert_signatures!(tokio_wheel);
}

/// The `Debug` of tokio-util's queue needs `T: Debug`.
#[test]
fn debug_shows_no_values() {
    struct Secret;
    let mut queue = DelayQueue::new();
    queue.insert(Secret, secs(1));
    assert_eq!(
        format!("{queue:?}"),
        "DelayQueue { len: 1, capacity: 256, .. }"
    );
}

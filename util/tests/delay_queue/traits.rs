//! Traits, and the views of an element.

use std::{cell::Cell, fmt::Debug, hash::Hash, marker::PhantomPinned};

use futures_core::FusedStream;
use static_assertions::{assert_impl_all, assert_not_impl_any};

use crate::support::auto_traits::{Nothing, auto_traits};

use super::*;

assert_impl_all!(DelayQueue<u8>: Default, Stream<Item = delay_queue::Expired<u8>>, FusedStream);
assert_impl_all!(DelayQueue<PhantomPinned>: Unpin);
assert_not_impl_any!(DelayQueue<u8>: Clone);
assert_impl_all!(delay_queue::Key: Copy, Debug, Eq, Hash);

auto_traits! {
    the_auto_traits_of_a_queue_are_those_of_its_elements {
    //   Send Sync Unpin UnwindSafe RefUnwindSafe
        "1 1 1 1 1" DelayQueue<u8>,
        "1 0 1 1 0" DelayQueue<Cell<u8>>,
        "0 0 1 0 0" DelayQueue<Nothing>,
        "1 1 1 1 1" delay_queue::Expired<u8>,
        "1 1 1 1 1" delay_queue::Key,
    }
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

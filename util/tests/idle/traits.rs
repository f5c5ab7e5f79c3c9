//! Traits, which the compiler checks.

use std::{cell::Cell, fmt::Debug, hash::Hash, rc::Rc};

use futures_core::Stream;
use static_assertions::{assert_impl_all, assert_not_impl_any};

use crate::support::auto_traits::{Nothing, auto_traits};

use super::*;

assert_impl_all!(IdleSet<u8>: Clone);
assert_impl_all!(Reaper<u8>: Stream<Item = u8>);
assert_impl_all!(Touched: Copy, Debug, Eq, Hash);
assert_not_impl_any!(Reaper<u8>: Clone);
assert_not_impl_any!(IdleSet<u8, Rc<u8>>: Send, Sync);

auto_traits! {
    the_auto_traits_of_a_set {
    //   Send Sync Unpin UnwindSafe RefUnwindSafe
        "1 1 1 1 1" IdleSet<u8>,
        "1 1 1 1 1" IdleSet<Cell<u8>>,
        "1 1 1 1 1" Reaper<u8>,
        "1 1 1 1 1" Builder<u8>,
        "0 0 1 1 1" IdleSet<Nothing>,
        "0 0 1 1 1" Reaper<Nothing>,
    }
}

// These traits put no bounds on the key and the hasher.
struct Opaque;
assert_impl_all!(IdleSet<Opaque, Opaque>: Clone, Debug, Unpin);
assert_impl_all!(Reaper<std::marker::PhantomPinned>: Unpin, Debug);

#[test]
fn debug_tells_the_number_of_keys() {
    let (set, reaper) = IdleSet::builder(secs(1)).hasher(RandomState::new()).build();
    set.touch("a");
    assert_eq!(format!("{set:?}"), "IdleSet { timeout: 1s, len: 1, .. }");
    assert_eq!(format!("{reaper:?}"), "Reaper { len: 1, .. }");
}

//! The auto traits of a type.

use std::{cell::Cell, marker::PhantomData, rc::Rc};

/// A type argument without any auto trait but `Unpin`.
pub(crate) type Nothing = PhantomData<(Rc<Cell<u8>>, *mut dyn FnMut())>;

/// Compares the auto traits of each type with a row of five bits: 1 for each trait that it implements. A change of a
/// row is a breaking change of the crate.
macro_rules! auto_traits {
    ($(#[$attribute:meta])* $test:ident { $($expected:literal $type:ty,)* }) => {
        $(#[$attribute])*
        #[test]
        fn $test() {
            let mut wrong = Vec::new();
            $(
                let found: String = [
                    $crate::support::auto_traits::implements!($type: Send),
                    $crate::support::auto_traits::implements!($type: Sync),
                    $crate::support::auto_traits::implements!($type: Unpin),
                    $crate::support::auto_traits::implements!($type: std::panic::UnwindSafe),
                    $crate::support::auto_traits::implements!($type: std::panic::RefUnwindSafe),
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

/// The constant of a type that does not implement the trait in [`implements`].
pub(crate) trait Otherwise {
    const IMPLEMENTS: bool = false;
}

impl<T: ?Sized> Otherwise for T {}

macro_rules! implements {
    ($type:ty: $trait:path) => {{
        #[allow(
            unused_imports,
            reason = "a type that implements the trait does not need it"
        )]
        use $crate::support::auto_traits::Otherwise as _;
        struct Type<T: ?Sized>(#[allow(dead_code, reason = "for `T`")] std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "other types have the constant of `Otherwise`")]
        impl<T: ?Sized + $trait> Type<T> {
            const IMPLEMENTS: bool = true;
        }
        <Type<$type>>::IMPLEMENTS
    }};
}

pub(crate) use {auto_traits, implements};

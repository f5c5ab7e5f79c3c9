//! Runs one body on another crate and on this crate, and compares the logs.

use std::{cell::RefCell, fmt::Debug, time::Duration};

use tokio_wheel::Instant;

/// A log of events, each with the virtual time that had passed.
pub(crate) struct Log {
    pub(crate) start: Instant,
    entries: RefCell<Vec<(String, Duration)>>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            entries: RefCell::default(),
        }
    }

    pub(crate) fn note(&self, what: impl Debug) {
        let entry = (format!("{what:?}"), self.start.elapsed());
        self.entries.borrow_mut().push(entry);
    }

    pub(crate) fn into_entries(self) -> Vec<(String, Duration)> {
        self.entries.into_inner()
    }
}

/// Runs each body under the paused clock with the other crate's module and with this crate's module, and compares the
/// logs. Traits that the bodies need follow their module in the parentheses.
macro_rules! side_by_side {
    (@log ($path:path $(, $also:path)*) as $module:ident, $log:ident, $body:block) => {{
        #[allow(unused_imports, reason = "not every body names the module")]
        use $path as $module;
        $(
            #[allow(unused_imports, reason = "not every body calls the trait's methods")]
            use $also as _;
        )*
        $crate::support::paused().block_on(async {
            let $log = $crate::support::log::Log::new();
            $body
            $log.into_entries()
        })
    }};
    (
        $theirs:tt $ours:tt
        $($(#[$attribute:meta])* async fn $name:ident($module:ident, $log:ident) $body:block)*
    ) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            use $crate::support::log::side_by_side;

            let theirs = side_by_side!(@log $theirs as $module, $log, $body);
            let ours = side_by_side!(@log $ours as $module, $log, $body);
            assert!(!ours.is_empty());
            let sides = concat!("left: ", stringify!($ours), ", right: ", stringify!($theirs));
            assert_eq!(ours, theirs, "{sides}");
        }
    )*};
}

pub(crate) use side_by_side;

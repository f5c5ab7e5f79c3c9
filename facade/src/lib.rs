#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(test(
    no_crate_inject,
    attr(deny(warnings, rust_2018_idioms)),
    attr(allow(unused, reason = "an example may only show an item"))
))]

//! tokio, with its `time` replaced by [`tokio_wheel`].
//!
//! To migrate a program, change one line in each section of its Cargo.toml that names tokio. Its source code does not
//! change:
//!
//! ```toml
//! [dependencies]
//! tokio = { package = "tokio-on-wheel", version = "0.1", features = ["full"] }
//! ```
//!
//! Keep the features that the line had. If other tables have a line for tokio, such as `[dev-dependencies]`, change it
//! as well. In a workspace, change the line in `[workspace.dependencies]`, or the line of each member. To go back,
//! restore the old lines and Cargo.lock. The crate needs Rust 1.85 and tokio 1.54.
//!
//! # Behavior
//!
//! `tokio::time` is now this crate's module `time`, which has the timers of [`tokio_wheel`]. Everything else is tokio's
//! own: types, traits, macros, and the runtime. Each feature of tokio exists, enables tokio's feature of the same
//! name, and is off by default.
//!
//! ```
//! # extern crate tokio_on_wheel as tokio;
//! use tokio::time::{self, Duration, Instant};
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() {
//!     let start = Instant::now();
//!     let sleep = time::sleep(Duration::from_millis(20));
//!     tokio::pin!(sleep);
//!     tokio::select! {
//!         () = &mut sleep => assert_eq!(start.elapsed(), Duration::from_millis(20)),
//!         () = std::future::pending() => unreachable!(),
//!     }
//!
//!     // The program itself does not name `tokio_wheel`.
//!     let _: &tokio_wheel::Sleep = &sleep;
//! }
//! ```
//!
//! # Metrics, and the rest of the wheel
//!
//! With the feature `time`, the crate also re-exports [`tokio_wheel`] itself, for example for its metrics. The timer of
//! `time::sleep` is `Timer::current`:
//!
//! ```
//! # extern crate tokio_on_wheel as tokio;
//! use tokio::{time::{self, Duration}, tokio_wheel::Timer};
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() {
//!     time::sleep(Duration::from_millis(20)).await;
//!
//!     let metrics = Timer::current().metrics();
//!     assert_eq!((metrics.pending(), metrics.fired()), (0, 1));
//!     println!("late by at most {:?}", metrics.lateness().max());
//! }
//! ```
//!
//! A build with tokio itself does not have this path. For a `DelayQueue`, a server with connection limits and more, add the
//! package `tokio-wheel-util`, which uses the same default timers.
//!
//! # Troubleshooting
//!
//! At compile time:
//!
//! | cargo or the compiler reports | because | use |
//! |---|---|---|
//! | failed to select a version for `slab`, `futures-core` or `tokio` | Cargo.lock has older versions than the wheel needs | `cargo update slab futures-core tokio`, or those that cargo names |
//! | Dependency 'tokio' has different source paths | another table of Cargo.toml, such as `[dev-dependencies]`, still names tokio | the same line there |
//! | E0308 at `IntervalStream::new`, `timeout_repeating` or another function of a dependency that takes an `Interval` or a `Sleep` | the dependency expects tokio's type | `tokio_wheel_util::stream`, which has the items of tokio-stream |
//! | E0308 at an `Elapsed` | a dependency returns tokio's `Elapsed` | `?` or `into`, which turn tokio's type into the wheel's |
//! | E0277 at `?` after a timeout | the error type of a dependency converts only from tokio's `Elapsed` | `map_err` |
//! | a failed assertion that a future is not `Unpin` | the wheel's `Sleep` is `Unpin`, and so is a `Timeout` of an `Unpin` future | no assertion |
//! | E0603: module `time` is private | this crate's feature `time` is off, although another crate may turn on tokio's | the feature `time` |
//! | E0425 or E0432 at `pause`, `resume` or `advance`; E0599 (no method named `start_paused`) at `#[tokio::test(start_paused = true)]` | the same, with the feature `test-util` | the feature `test-util` |
//!
//! At run time:
//!
//! * **Outside a runtime.** The first poll of a timer needs a runtime whose time is enabled (`enable_time` or
//!   `enable_all`), and panics elsewhere. In tokio, the call that creates the timer needs the runtime.
//! * **Downcasts.** `downcast_ref::<tokio::time::error::Elapsed>()` finds only errors of your own timeouts, and not those
//!   of dependencies.
//! * **Dependencies stay on tokio's timers.** This line changes only your own package. A `timeout` in hyper, sqlx or
//!   another dependency works as before, and costs the same as before. To see what the wheel would gain there, try
//!   [`cargo on-wheel`], which migrates a program with all of its dependencies, as an experiment.
//! * **A test that pauses the clock in its body.** A call of `pause` may stop the clock between two milliseconds. Then
//!   tokio's sleeps in dependencies, such as tokio-util's `DelayQueue`, take up to 1 ms longer than yours, and a test that
//!   expects both to complete together fails. Use `#[tokio::test(start_paused = true)]` instead of `pause`.
//! * The [migration guide] lists the small differences.
//!
//! A library can use this crate too. If its public functions take or return a timer, their types change for its users.
//!
//! [`cargo on-wheel`]: https://github.com/tokio-wheel/tokio-wheel/tree/main/facade/try
//! [migration guide]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/migration.md#tokiotime

pub use tokio::*;

#[cfg(feature = "time")]
#[doc(no_inline)]
pub use tokio_wheel;

// Without this module, `tokio::time` would be tokio's own if another crate turned on tokio's feature.
#[cfg(not(feature = "time"))]
#[allow(hidden_glob_reexports, reason = "another crate may turn it on")]
mod time {} // To use `tokio::time`, turn on the feature `time`.

/// Sleeps, timeouts and intervals of [`tokio_wheel`], under their names in [`tokio::time`].
#[cfg(feature = "time")]
pub mod time {
    #[cfg(feature = "test-util")]
    pub use tokio_wheel::{advance, pause, resume};

    pub use tokio_wheel::{
        Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, interval, interval_at,
        sleep, sleep_until, timeout, timeout_at,
    };

    /// The errors of [`tokio::time`].
    pub mod error {
        pub use tokio::time::error::Error;
        pub use tokio_wheel::error::Elapsed;
    }
}

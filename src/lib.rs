#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(test(
    no_crate_inject,
    attr(deny(warnings, rust_2018_idioms), allow(dead_code, unused))
))]

//! Timers for tokio servers that hold very many connections.
//!
//! The functions and types at the root have the names, signatures and meaning of
//! [`tokio::time`]'s, so a server changes one `use` line. Behind them is a hierarchical timing
//! wheel (Varghese and Lauck, 1987 and 1997) per worker thread, driven by one task: registering,
//! cancelling and resetting a timer are O(1), take no lock that threads share, and cost the same
//! with ten million timers pending as with none.
//!
//! ```
//! use tokio_wheel::{sleep, timeout, Duration, Instant};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let start = Instant::now();
//! sleep(Duration::from_millis(20)).await;
//! assert!(start.elapsed() >= Duration::from_millis(20));
//!
//! let never = std::future::pending::<()>();
//! assert!(timeout(Duration::from_secs(30), never).await.is_err());
//! # }
//! ```
//!
//! # Which timer a future uses
//!
//! A future made by a free function uses the *ambient* timer of the runtime that first polls it
//! (a [`Timeout`], if its inner future is pending). The ambient timer is started at first need. Creating a future outside of a runtime
//! is fine; polling it there panics.
//!
//! A [`Timer`] made by [`Timer::builder`] has a tick and shards of its own. Futures made by its
//! methods may be polled anywhere, on any executor, as long as its runtime lives.
//!
//! # Promises
//!
//! * **Never early.** When a [`Sleep`] is ready, `Instant::now() >= deadline`.
//! * **Never lost.** Every registered timer fires, is deregistered, or its timer has shut down.
//! * **Lateness** is at most one tick (by default 1/64 ms) plus one wake-up of the driver, which
//!   sleeps on [`tokio::time`] and so moves in its milliseconds.
//! * **No tick without a reason.** The driver sleeps until the next timer is due; cancelling
//!   never wakes it.
//! * **No foreign code under a lock.** Wakers are cloned, woken and dropped outside of it, and
//!   one that panics harms no other timer.
//!
//! # What differs from `tokio::time`
//!
//! | | `tokio::time` | here |
//! |---|---|---|
//! | creating a future outside of a runtime | panics | is fine |
//! | runtime without time enabled | panics at creation | panics at the first poll |
//! | [`Sleep`] | `!Unpin` | `Unpin` |
//! | a deadline that has passed | ready at the next tick | ready at the first poll, or when the driver has caught up |
//! | [`sleep`]`(Duration::MAX)` | 30 years | the end of what [`Instant`] can express |
//!
//! # Features
//!
//! * `test-util`: `pause`, `resume` and `advance`, as tokio's feature of the same name.

mod arming;
mod clock;
mod driver;
mod interval;
mod metrics;
mod registrar;
mod shard;
mod sleep;
mod sync;
mod timeout;
mod timer;
mod wheel;

pub mod error;

#[cfg(feature = "test-util")]
mod test_util;

#[cfg(all(test, tokio_wheel_loom))]
mod loom_tests;

/// The README's example, compiled and run as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use std::time::Duration;
pub use tokio::time::{Instant, MissedTickBehavior};

pub use interval::{Interval, interval, interval_at};
pub use metrics::Metrics;
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Timeout, timeout, timeout_at};
pub use timer::{Builder, Timer};

#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub use test_util::{advance, pause, resume};

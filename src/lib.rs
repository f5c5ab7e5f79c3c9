#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Examples may leave unused what they show; else they are held to what users' own lints are.
#![doc(test(
    no_crate_inject,
    attr(deny(warnings, rust_2018_idioms), allow(dead_code, unused))
))]

//! Timers for tokio servers that hold very many connections.
//!
//! The functions and types at the root have the names, signatures and meaning of
//! [`tokio::time`]'s, so a server changes one `use` line. Behind them is a hierarchical timing
//! wheel (Varghese and Lauck, 1987 and 1997) per worker thread, driven by one task: registering,
//! cancelling and resetting a timer are O(1), take no lock that all threads share, and cost about
//! the same with a million timers pending as with none.
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
//! (a [`Timeout`], if its inner future is pending). The ambient timer is started at first need.
//! Creating a future outside of a runtime is fine; polling it there panics.
//!
//! A worker thread of a multi-thread runtime remembers its timer. While a task there has entered
//! another runtime's handle, or runs another runtime within `block_in_place`, futures may still
//! register with the worker's own runtime. They fire by that one's clock: if the other's is paused,
//! that may be early or late by the other's. Use a [`Timer`] of the other runtime in such a place.
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
//! * **No tick without a reason.** The driver sleeps until a slot of the wheel is due; cancelling
//!   never wakes it.
//! * **No foreign code under a lock.** Wakers are cloned, woken and dropped outside of it, and
//!   one that panics harms no other timer.
//!
//! # What differs from `tokio::time`
//!
//! | | `tokio::time` | here |
//! |---|---|---|
//! | which runtime's timer a future uses | that of the runtime it is created in | that of the runtime it is first polled in, unless a [`Timer`] made it |
//! | creating a future outside of a runtime | panics | is fine |
//! | first polling it outside of a runtime | works | panics, unless a [`Timer`] made it |
//! | a runtime without time enabled | panics when the future is created | panics when it is first polled |
//! | [`Sleep`] | `!Unpin` | `Unpin` |
//! | a deadline that has passed | ready at the next tick, as a rule | ready at the first poll, or as soon as the driver has caught up |
//! | [`sleep`]`(Duration::MAX)` | 30 years | at least half of what [`Instant`] can express; a paused clock does not leap there |
//! | a paused clock, and a cancelled timer | no trace is left | an idle runtime may first leap to where the driver was to wake up for it |
//! | [`Interval`] | not `must_use` | `must_use`; its [`period`](Interval::period) is what was given, however long |
//! | `error::Error` | exists, though nothing returns it | does not exist |
//!
//! The [migration guide](migration) has the rest: what to write instead of each timer of
//! tokio-util, tokio-stream, tokio-io-timeout, hyper-util and tower.
//!
//! # Features
//!
//! None is on by default.
//!
//! * `stream`: the module `stream`, with timeouts, throttling and chunks by time for streams, and
//!   `FutureExt`.
//! * `io`: the module `io`, with readers and writers that have timeouts, an idle limit and a minimum
//!   rate.
//! * `hyper`: the module `hyper`, with a timer for hyper's connections.
//! * `tower`: the module `tower`, with a timeout as a layer.
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

pub mod delay_queue;
pub mod error;

#[cfg(feature = "hyper")]
#[cfg_attr(docsrs, doc(cfg(feature = "hyper")))]
pub mod hyper;
#[cfg(feature = "idle")]
#[cfg_attr(docsrs, doc(cfg(feature = "idle")))]
pub mod idle;
#[cfg(feature = "io")]
#[cfg_attr(docsrs, doc(cfg(feature = "io")))]
pub mod io;
#[cfg(feature = "stream")]
#[cfg_attr(docsrs, doc(cfg(feature = "stream")))]
pub mod stream;
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub mod tower;

#[cfg(feature = "stream")]
mod future_ext;
#[cfg(feature = "test-util")]
mod test_util;

#[cfg(all(test, tokio_wheel_loom))]
mod loom_tests;

/// The README's example, compiled and run as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doc)]
#[doc = include_str!("../docs/migration.md")]
pub mod migration {}

pub use std::time::Duration;
pub use tokio::time::{Instant, MissedTickBehavior};

pub use delay_queue::DelayQueue;
pub use interval::{Interval, interval, interval_at};
pub use metrics::Metrics;
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Timeout, timeout, timeout_at};
pub use timer::{Builder, Timer};

#[cfg(feature = "stream")]
#[cfg_attr(docsrs, doc(cfg(feature = "stream")))]
pub use future_ext::FutureExt;
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub use test_util::{advance, pause, resume};

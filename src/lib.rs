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
//! # Tasks that run later
//!
//! [`Timer::schedule`] takes a future that is to run later, as a tokio task. Until then it is an
//! entry of the wheel and nothing else, and can be cancelled in O(1):
//!
//! ```
//! use tokio_wheel::{Duration, Timer};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let timer = Timer::current();
//! let retry = timer.schedule(Duration::from_secs(5), async { "tried again" })?;
//! let give_up = timer.schedule(Duration::from_secs(60), async { "gave up" })?;
//! assert_eq!(retry.await?, "tried again");
//! assert!(give_up.cancel());
//! # Ok(())
//! # }
//! ```
//!
//! There are periodic tasks as well, at a fixed rate or with a fixed delay, a
//! [limit](Builder::max_pending) on what is pending, and a [`shutdown`](Timer::shutdown) that gives
//! back what has not run: see the [module `schedule`](mod@schedule). Who knows Netty's timer, the
//! JDK's or Kafka's finds each of their operations on the page about [classic timers](classics).
//!
//! # Which timer a future uses
//!
//! A future made by a free function uses the *ambient* timer of the runtime that first polls it
//! (a [`Timeout`], if its inner future is pending). The ambient timer is started at first need.
//! Creating a future outside of a runtime is fine; polling it there panics.
//!
//! A worker thread of a multi-thread runtime remembers its timer, and does not ask which runtime is
//! current. If a task there enters another runtime's handle, or runs another runtime within
//! `block_in_place`, futures may still register with the worker's own runtime. They then fire by the
//! clock of that runtime and wait for its workers, possibly forever. Use a [`Timer`] of the other
//! runtime in such a place. The page [limitations] says which threads do so and what follows.
//!
//! If the timer's runtime shuts down while such a future is pending, the future goes on with the
//! runtime that polls it. Polled outside of a runtime before its deadline, it panics. If a worker
//! blocks in place on a pending future while its runtime shuts down, the future panics as tokio's
//! do, so the shutdown ends.
//!
//! A [`Timer`] made by [`Timer::builder`] has a tick and shards of its own. Futures made by its
//! methods may be polled anywhere, on any executor, as long as its runtime lives.
//!
//! [limitations]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/limitations.md
//!
//! # Promises
//!
//! * **Never early.** When a [`Sleep`] is ready, `Instant::now() >= deadline`.
//! * **Never lost.** Every registered timer fires, is deregistered, or its timer has shut down.
//! * **Lateness** is at most one tick (by default 1/64 ms) plus one wake-up of the driver, which
//!   sleeps on [`tokio::time`] and so moves in its milliseconds. A timer of high resolution sleeps on
//!   an alarm of its own: [which timer for which job](which_timer) has the measured lateness of all.
//!   On a busy runtime the driver waits for its turn like any task. Lateness then depends on the
//!   timers that are due, not on the idle ones: [what breaks first](scaling#what-breaks-first).
//! * **Order.** If a thread sets timers for the same deadline one right after the other, they wake in
//!   that order, as a rule. On a clock that is paused or was paused, this always holds. There, all
//!   timers of one thread wake in the order of their deadlines.
//! * **No tick without a reason.** The driver sleeps until a slot of the wheel is due; cancelling
//!   never wakes it.
//! * **No foreign code under a lock.** Wakers are cloned, woken and dropped outside of it, and
//!   one that panics harms no other timer. The one exception is in the module `idle`, which has to
//!   compare keys under a lock.
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
//! | a pending [`Sleep`] that is [reset](Sleep::reset) to now or the past | wakes its task at once | the same, unless the driver is late: see there |
//! | [`Sleep::is_elapsed`] of a sleep that was not pending, after a reset and before the next poll | `true` from the deadline on | `false` |
//! | [`sleep`]`(Duration::MAX)` | 30 years | at least half of what [`Instant`] can express; a paused clock does not leap there |
//! | a clock that is paused between two milliseconds | rounds a sleep up by as much as 1 ms | a sleep of whole milliseconds takes exactly its time if the timer starts on that clock; else the same |
//! | two deadlines less than 1 ms apart, on such a clock | may fire one after the other | may fire together, in their order |
//! | a paused clock, and a cancelled timer | no trace is left | an idle runtime may first leap to where the driver was to wake up for it |
//! | [`Interval`] | not `must_use` | `must_use`; its [`period`](Interval::period) is what was given, however long |
//! | `error::Error` | exists, though nothing returns it | does not exist |
//!
//! The [migration guide](migration) has the rest: what to write instead of each timer of
//! tokio-util, tokio-stream, tokio-io-timeout, hyper-util and tower.
//!
//! # Watching a timer
//!
//! [`Timer::metrics`] costs little and has counts, and how late the latest timer was since the last
//! reading. [`Timer::time_left`] looks at every pending timer and counts them by the time left.
//!
//! With the feature `tracing` the driver emits events, with the target `tokio_wheel`:
//!
//! | level | message | fields |
//! |---|---|---|
//! | `TRACE` | `driver woke up` | `by`: `alarm`, a slot of the wheel is due; or `bell`, something is due at once, a thread that is no worker of the timer's runtime has set an earlier deadline, or the timer was shut down or is no more needed |
//! | `TRACE` | `batch`, one hold of a shard's lock | `shard`; `fired`, timers that fired; `steps`, timers and slots visited, at most 128; `interrupted`, whether there is more to do at once; `worst_lateness_us`, in microseconds |
//! | `DEBUG` | `timer shut down` | `pending`, timers that were pending and have been woken |
//! | `ERROR` | `waker panicked` | `panic`, the message if it is a string |
//!
//! A subscriber is called with no lock held and may use the timer; what comes of that on the same
//! thread meanwhile is not told in turn. If it panics, the event is lost and nothing else. If it is
//! slow, it holds up the driver.
//!
//! # Features
//!
//! None is on by default.
//!
//! * `stream`: the module `stream`, with timeouts, throttling and chunks by time for streams, and
//!   `FutureExt`.
//! * `io`: the module `io`, with readers and writers that have timeouts, an idle limit and a minimum
//!   rate.
//! * `http`: the module `http`, with timeouts of HTTP requests and of their bodies, as layers. Turns on
//!   `tower`.
//! * `hyper`: the module `hyper`, with limits of a connection's lifetime, and a timer for hyper.
//! * `high-resolution`: `Builder::high_resolution`, for timers below a millisecond, on Linux.
//! * `coarse`: `Builder::coarse`, for long timers that cost less and are up to 100 ms later.
//! * `idle`: the module `idle`, with a set of keys that come out when they go untouched.
//! * `tower`: the module `tower`, with a timeout as a layer.
//! * `tracing`: events of the driver, as above.
//! * `test-util`: `pause`, `resume` and `advance`, as tokio's feature of the same name.

mod driver;
mod futures;
mod ground;
mod timer;
mod wheel;

#[cfg(tokio_wheel_lock_times)]
#[doc(hidden)]
pub use ground::lock_times;

pub mod delay_queue;
pub mod error;
pub mod schedule;

#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
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

/// The README's example, compiled and run as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doc)]
#[doc = include_str!("../docs/migration.md")]
pub mod migration {}

#[cfg(doc)]
#[doc = include_str!("../docs/classics.md")]
pub mod classics {}

// Where the pictures are that the page has beside it.
/// [lateness-idle]: https://raw.githubusercontent.com/tokio-wheel/tokio-wheel/main/docs/img/lateness-idle.svg
/// [lateness-busy]: https://raw.githubusercontent.com/tokio-wheel/tokio-wheel/main/docs/img/lateness-busy.svg
#[cfg(doc)]
#[doc = include_str!("../docs/which-timer.md")]
pub mod which_timer {}

#[cfg(doc)]
#[doc = include_str!("../docs/scaling.md")]
pub mod scaling {}

pub use std::time::Duration;
pub use tokio::time::{Instant, MissedTickBehavior};

pub use delay_queue::DelayQueue;
pub use futures::{
    Interval, Sleep, Timeout, interval, interval_at, sleep, sleep_until, timeout, timeout_at,
};
pub use schedule::free::{
    schedule, schedule_at, schedule_at_fixed_rate, schedule_at_fixed_rate_with,
    schedule_with_fixed_delay,
};
pub use timer::{Builder, Metrics, TimeLeft, Timer};

#[cfg(feature = "stream")]
#[cfg_attr(docsrs, doc(cfg(feature = "stream")))]
pub use futures::FutureExt;
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub use timer::{advance, pause, resume};

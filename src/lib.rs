#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The examples in the documentation pass the lints that users commonly deny.
#![doc(test(
    no_crate_inject,
    attr(deny(warnings, rust_2018_idioms), allow(dead_code, unused))
))]

//! Timers for tokio servers that hold very many connections.
//!
//! The functions and types at the root have the names, signatures and meaning of those in [`tokio::time`].
//! A server changes one `use` line. Each worker thread has a hierarchical timing wheel of its own
//! (Varghese and Lauck, 1987 and 1997), and one task drives them all. Registering, canceling and resetting
//! are O(1). They take no lock that all threads share, and cost about the same beside a million pending timers.
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
//! # Where to find what
//!
//! | need | item | feature |
//! |---|---|---|
//! | wait, limit a future, repeat | [`sleep()`], [`timeout()`], [`interval()`], [`FutureExt`] | |
//! | run a task later | [`schedule()`] and the [module `schedule`](mod@schedule) | |
//! | expire the elements of a queue | [`DelayQueue`] | |
//! | a tick, shards or a limit of your own | [`Timer::builder`] | |
//! | counters and lateness | [`Timer::metrics`] | |
//! | timeouts, throttling and chunks by time for streams | module `stream` | `stream` |
//! | a connection with read, write and idle timeouts, and minimum rates | module `io` | `io` |
//! | a timer for hyper, and limits for a server's connections | module `hyper` | `hyper` |
//! | timeouts of HTTP requests and bodies, as tower layers | module `http` | `http`, which turns on `tower` |
//! | a timeout as a tower layer | module `tower` | `tower` |
//! | keys that expire unless they are touched | module `idle` | `idle` |
//! | long timers that cost less and fire up to 100 ms later | `Builder::coarse` | `coarse` |
//! | timers below a millisecond, on Linux | `Builder::high_resolution` | `high-resolution` |
//! | events of the driver | [below](#events) | `tracing` |
//! | `pause`, `resume` and `advance` for tests | the root | `test-util` |
//!
//! No feature is on by default. More pages: [migration], [which timer for which job][which-timer],
//! [how it scales][scaling], [limitations], [classic timers][classics], [figures] and [testing].
//!
//! # Tasks that run later
//!
//! [`schedule()`] takes a future and runs it later as a tokio task. Until then the task is only an entry of the
//! wheel. Canceling it is O(1).
//!
//! ```
//! use tokio_wheel::{schedule, Duration};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let retry = schedule(Duration::from_secs(5), async { "tried again" })?;
//! let give_up = schedule(Duration::from_secs(60), async { "gave up" })?;
//! assert_eq!(retry.await?, "tried again");
//! assert!(give_up.cancel());
//! # Ok(())
//! # }
//! ```
//!
//! The [module `schedule`](mod@schedule) has periodic tasks, a limit on pending entries, and a shutdown that
//! returns the tasks that have not started.
//!
//! # Which timer a future uses
//!
//! Each runtime has a *default timer*, also called its ambient timer. It starts when a future first needs it. A
//! future that a free function returns uses the default timer of the runtime that first polls it. You can
//! create such a future outside a runtime. Polling it there panics.
//!
//! [`Timer::builder`] makes a timer with a tick and shards of its own. A future that a method of [`Timer`] returns uses
//! that timer. Any executor may poll it, as long as the timer's runtime lives.
//!
//! When the timer's runtime shuts down, a pending future of a free function continues on the runtime that polls it next.
//! Polling it outside a runtime before its deadline panics. If a worker blocks in place on such a future while its
//! runtime shuts down, the future panics as tokio's futures do. So the shutdown ends.
//!
//! A worker thread remembers its timer and does not ask which runtime is current. So a task that enters another runtime
//! needs a [`Timer`] of that runtime. The page [limitations] lists the threads and the consequences.
//!
//! # Promises
//!
//! * **Never early.** When a [`Sleep`] is ready, `Instant::now() >= deadline`.
//! * **Never lost.** Every entry fires, is deregistered, or its timer shuts down.
//! * **Late by little.** A timer is late by at most one tick (1/64 ms by default) and one wake-up of the driver. The driver
//!   sleeps on [`tokio::time`], which moves in milliseconds. On a busy runtime, the driver waits for its turn as every task
//!   does. Lateness then depends on the timers that expire, and not on [idle timers][scaling].
//! * **In order.** A thread that sets timers for the same deadline one after the other usually sees them wake in that order.
//!   On a clock that is or was paused, this always holds, and all timers of a thread wake in the order of their deadlines.
//! * **No work without a reason.** The driver sleeps until a slot of the wheel expires. Canceling never wakes it.
//! * **No user code under a lock.** The crate clones, wakes and drops wakers outside its locks. A waker that panics harms
//!   no other timer. The module `idle` is an exception: it compares keys under a lock.
//!
//! # What differs from `tokio::time`
//!
//! * A future uses the timer of the runtime that first polls it. tokio uses the runtime that creates it.
//! * Creating a future outside a runtime works. tokio panics.
//! * [`Sleep`] is [`Unpin`].
//! * A deadline that has passed is ready at the first poll. tokio usually waits for the next millisecond.
//!
//! The [migration guide][migration] lists every difference.
//!
//! # Events
//!
//! With the feature `tracing`, the driver emits events with the target `tokio_wheel`:
//!
//! | level | message | fields |
//! |---|---|---|
//! | `TRACE` | `driver woke up` | `by`: `alarm` if a slot of the wheel expired, or `notified` if another thread woke the driver |
//! | `TRACE` | `batch`: one hold of a shard's lock | `shard`; `fired`: timers that fired; `steps`: timers and slots that the driver visited, at most 128; `interrupted`: whether more work is left; `worst_lateness_us`: in microseconds |
//! | `DEBUG` | `timer shut down` | `pending`: timers that were pending and have been woken |
//! | `ERROR` | `waker panicked` | `panic`: the message, if it is a string |
//!
//! Another thread wakes the driver for one of three reasons:
//!
//! * A timer expires at once.
//! * A thread that is not a worker of the timer's runtime has set an earlier deadline.
//! * The timer was shut down, or nothing uses it any longer.
//!
//! The driver holds no lock when it calls a subscriber, so the subscriber may use the timer. The crate emits no events for
//! what the subscriber does on that thread during the call. If the subscriber panics, only that event is lost. A slow
//! subscriber delays the driver.
//!
//! [classics]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/classics.md
//! [figures]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/figures.md
//! [limitations]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/limitations.md
//! [migration]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/migration.md
//! [scaling]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/scaling.md
//! [testing]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/testing.md
//! [which-timer]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/which-timer.md

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

// Compiles and runs the examples of the pages as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../docs/classics.md")]
struct Classics;
#[cfg(doctest)]
#[doc = include_str!("../docs/migration.md")]
struct Migration;
#[cfg(doctest)]
#[doc = include_str!("../docs/scaling.md")]
struct Scaling;
#[cfg(doctest)]
#[doc = include_str!("../docs/which-timer.md")]
struct WhichTimer;

pub use std::time::Duration;
pub use tokio::time::{Instant, MissedTickBehavior};

pub use delay_queue::DelayQueue;
pub use futures::{
    FutureExt, Interval, Sleep, Timeout, interval, interval_at, sleep, sleep_until, timeout,
    timeout_at,
};
pub use schedule::free::{
    schedule, schedule_at, schedule_at_fixed_rate, schedule_at_fixed_rate_with,
    schedule_with_fixed_delay,
};
pub use timer::{Builder, Histogram, Metrics, Timer};

#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub use timer::{advance, pause, resume};

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The examples in the documentation pass the lints that users commonly deny.
#![doc(test(
    no_crate_inject,
    attr(deny(warnings, rust_2018_idioms)),
    attr(allow(unused, reason = "an example may only show an item"))
))]

//! Timers for tokio: `sleep`, `timeout` and `interval` on a sharded timing wheel.
//!
//! The functions and types at the root have the names, signatures and behavior of [`tokio::time`], with a few
//! [differences](#differences-from-tokiotime). Use them instead of [`tokio::time`] if tasks sometimes block a worker, if
//! very many timeouts can expire at once, or if workers wait for tokio's timer lock.
//!
//! Each worker thread has its own hierarchical timing wheel (Varghese and Lauck, 1987 and 1997), called a *shard*. A pending
//! sleep, timeout or interval is an *entry* in one of them. The *driver* of a runtime fires the entries of all shards.
//! Setting, canceling and resetting a sleep is O(1) and takes no global lock.
//!
//! To migrate a whole program by changing one line of its Cargo.toml, use the package `tokio-on-wheel`.
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
//! # Overview
//!
//! | need | item | feature |
//! |---|---|---|
//! | wait, limit a future's time, or repeat | [`sleep()`], [`timeout()`], [`interval()`], [`FutureExt`] | |
//! | choose a timer's tick or shards | [`Timer::builder`] | |
//! | see how late timers fire | [`Timer::metrics`] | |
//! | keep sockets and timers going while a task blocks a worker | [`Builder::watch`], on by default | |
//! | see how often and how long tasks block workers | [`Metrics::blocks`], [`Metrics::longest_block`] | |
//! | see which lines of a program have timers pending | `Timer::call_sites` | `call-sites` |
//! | wait for less than a millisecond, on Linux | `Builder::high_resolution` | `high-resolution` |
//! | log blocked workers and other events | [below](#events) | `tracing` |
//! | control the clock in tests | `pause`, `resume` and `advance` at the root | `test-util` |
//!
//! No feature is on by default. The package `tokio-wheel-util` has a server with connection limits, request deadlines, a
//! scheduler, a delay queue, a set of keys that expire unless they are touched, and timeouts for streams, I/O, tower, HTTP
//! and hyper. More pages: [migration], [comparison][compare], [how it works][scaling], [limitations], [benchmarks][figures]
//! and [testing].
//!
//! # Which timer a future uses
//!
//! Each runtime has a *default timer*, which starts when a future first needs it.
//!
//! A future returned by a free function, such as [`sleep()`], registers with the default timer of the runtime that first
//! polls it. You can create it outside a runtime, but polling it there panics. For each new wait, such as an interval's next
//! tick or a sleep that is reset after it has fired, the future registers again with the runtime that polls it.
//!
//! [`Timer::builder`] builds a timer with its own tick and shards. A future returned by a method of [`Timer`] uses that
//! timer, and any executor can poll it while the timer's runtime is alive.
//!
//! If a runtime shuts down, its pending futures of free functions can continue on another runtime. Polling them outside a
//! runtime before their deadlines panics. If a worker waits for such a future inside `block_in_place`, the future panics
//! during the shutdown, so that the shutdown can finish. tokio's futures do the same.
//!
//! A worker thread remembers its timer, and seldom checks which runtime is current. So a task that enters another runtime
//! and then blocks needs a [`Timer`] of the other runtime: see [limitations]. Debug builds with the feature `tracing`
//! [warn](#events) in this case.
//!
//! # Promises
//!
//! * **Never early.** When a [`Sleep`] is ready, `Instant::now() >= deadline`.
//! * **Never lost.** Every entry fires, unless you drop its future or the timer shuts down.
//! * **On time.** An entry fires at most one tick (1/64 ms by default) after its deadline, plus one wake-up of the driver.
//!   The driver waits for a sleep of [`tokio::time`], whose resolution is one millisecond. On a busy runtime, it wakes up when
//!   a worker next looks at tokio's timers. Lateness then depends on how many entries expire, not on how many are pending.
//! * **A blocked worker does not stop the runtime,** as long as another worker is free. A background thread, the *watch*,
//!   wakes the free one, usually within 12 to 22 ms. In tokio, one blocked worker can stop all sockets and timers. See
//!   [`Builder::watch`] and [`Metrics::blocks`].
//! * **In order.** The entries of a thread fire in the order of their deadlines, unless the deadlines differ by less than a
//!   millisecond or [coarse slots][scaling] cascade. Entries with equal deadlines usually fire in the order in which they
//!   were registered. If the clock is or was paused, both orders are strict.
//! * **No needless wake-ups.** The driver sleeps until a slot of the wheel expires. Canceling an entry never wakes it.
//! * **No user code under a lock.** Wakers are cloned, woken and dropped outside locks. A waker that panics does not affect
//!   other entries.
//!
//! # Differences from `tokio::time`
//!
//! * A future uses the timer of the runtime that polls it. In tokio, it stays with the runtime in which it was created, panics
//!   if that runtime has ended, and hangs if no thread runs it.
//! * Creating a future outside a runtime works. In tokio, it panics.
//! * [`Sleep`] is [`Unpin`].
//!
//! The [migration guide][migration] lists every difference.
//!
//! # Events
//!
//! With the feature `tracing`, the crate emits events with the target `tokio_wheel`:
//!
//! | level | message | meaning |
//! |---|---|---|
//! | `TRACE` | `driver woke up` | The driver woke up. |
//! | `TRACE` | `batch` | The driver fired entries of one shard, and woke their tasks. |
//! | `DEBUG` | `timer shut down` | The timer has shut down, and has woken its pending tasks. |
//! | `WARN` | `a task blocked a worker` | A task blocked a worker, and the [watch](Builder::watch) had to wake another one. The event follows at the end of the block. |
//! | `ERROR` | `waker panicked` | A waker panicked, and the crate caught the panic. |
//! | `WARN` | `a sleep, timeout or interval uses the timer of the worker's own runtime` and more | A worker has entered [another runtime](#which-timer-a-future-uses). Only debug builds check this, and each thread warns once. |
//!
//! The events have these fields:
//!
//! | message | field | meaning |
//! |---|---|---|
//! | `driver woke up` | `by` | `alarm` if a slot of the wheel expired, `notified` if a thread notified the driver |
//! | `batch` | `shard` | the index of the shard |
//! | `batch` | `fired` | the number of entries that fired |
//! | `batch` | `steps` | the number of entries and slots that the driver visited, at most 128 |
//! | `batch` | `interrupted` | whether work remains |
//! | `timer shut down` | `pending` | the number of pending entries that the shutdown removed |
//! | `a task blocked a worker` | `ms` | the length of the block in milliseconds |
//! | `waker panicked` | `panic` | the message of the panic, if it is a string |
//!
//! [`Metrics::driver_wakeups`] lists the cases in which a thread notifies the driver.
//!
//! The driver holds no lock when it calls a subscriber, so the subscriber may use the timer. During the call,
//! the crate emits no further events on that thread. If the subscriber panics, only the current event is
//! lost. A slow subscriber delays the driver.
//!
//! [compare]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/compare.md
//! [figures]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/figures.md
//! [limitations]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/limitations.md
//! [migration]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/migration.md
//! [scaling]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/scaling.md
//! [testing]: https://github.com/tokio-wheel/tokio-wheel/blob/main/docs/testing.md

#[cfg(not(target_has_atomic = "64"))]
compile_error!("tokio-wheel needs a target with 64-bit atomics");

mod driver;
mod futures;
mod ground;
mod timer;

pub mod error;

pub use std::time::Duration;
pub use tokio::time::{Instant, MissedTickBehavior};

pub use futures::{
    FutureExt, Interval, Sleep, Timeout, interval, interval_at, sleep, sleep_until, timeout,
    timeout_at,
};
pub use timer::{Builder, Histogram, Metrics, Timer};

#[cfg(feature = "call-sites")]
pub use timer::CallSite;
#[cfg(feature = "test-util")]
pub use timer::{advance, pause, resume};

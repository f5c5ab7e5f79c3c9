//! Layer 1: the driver of a timer, its shards, and the modules through which a registration passes.
//!
//! A timer has one or more shards. A shard is a wheel behind a lock. Worker threads register entries in
//! shards. The driver fires the entries when their ticks are reached. It has two halves, and one of them at a
//! time takes a turn:
//!
//! * the waker of the alarm, which the runtime calls where it fires the timers of `tokio::time`
//! * the driver's task, which does the rest
//!
//! # The path of an entry
//!
//! ```text
//!    a registration, on any thread
//!    -----------------------------
//!    registrar    rounds the deadline up to a tick (clock)
//!        |
//!        v
//!    shard        adds the entry to its wheel
//!        |
//!        |  only if the entry is earlier than all entries of the shard
//!        v
//!    agenda       lowers the armed tick, and if that changes it:
//!                 on a worker of the runtime, sets the alarm; elsewhere, notifies the driver's task
//!
//!
//!    the driver, on a worker of its runtime
//!    --------------------------------------
//!    the alarm goes off                         a thread notifies the task
//!        |                                          |
//!        v                 something is left        v
//!    shared: the waker  ---------------------->  shared: the driver's task
//!        |                                          |
//!        v                                          v
//!    drive        fires expired entries, and cascades others to finer slots     ------>  the futures' wakers
//!        |
//!        v
//!    agenda       arms for the earliest tick of all shards, and sets the alarm
//!
//!
//!    a future is dropped, on any thread
//!    ----------------------------------
//!    default      asks whether the thread is the worker of the entry. A finished sleep has none, and ends here
//!        |                                          |
//!        | no                                       | yes
//!        v                                          v
//!    shard        removes the entry             entry           keeps it for the next future of the task,
//!                                                               or until the driver visits the shard
//! ```
//!
//! # Who calls whom
//!
//! | type | what it is | who calls it |
//! |---|---|---|
//! | [`Shared`](shared::Shared) | the state of a timer, and the waker of its alarm, which takes a turn | the runtime, when the alarm goes off |
//! | [`DriverTask`](shared::DriverTask) | the task, which takes the turns that the waker leaves. Its `Drop` closes the timer | the runtime, after [`Agenda`](agenda::Agenda) has notified it |
//! | [`Driver`](turn::Driver) | the state between two turns. It lies in the agenda, and one thread at a time takes it out: `fire_expired` | `Shared::take_turn` |
//! | [`Turn`](turn::Turn) | what a turn may still do: its clock, steps and room | `Driver::fire_expired` makes it, and `Shard::visit` uses it up |
//!
//! | question | module | describes |
//! |---|---|---|
//! | | [`registrar`] | how a future registers in one shard of a timer |
//! | | [`shared`] | the state of a timer, and the two halves of the driver: when each of them runs |
//! | | [`ending`] | how a timer ends |
//! | *when* | [`agenda`] | the published ticks, the armed tick and the alarm, and their races |
//! | | [`alarm`], `timer_fd` | the alarms that can wake the driver: tokio's time, or a `timerfd` |
//! | | [`clock`] | the conversion between instants and ticks |
//! | | [`watch`], [`workers`] | the thread that wakes a worker if another one blocks, and its rule |
//! | *what* | [`shard`] | a wheel behind a lock |
//! | | [`entry`] | what a wheel keeps of a future, and what dropped futures keep for the next futures |
//! | | [`lateness`] | the histogram of the lateness of entries |
//! | *how much* | [`turn`] | what the driver may do in a turn |
//! | | [`room`] | how many tasks a turn may wake |
//! | | [`drive`] | what it does in a turn |

pub(crate) mod agenda;
pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod drive;
pub(crate) mod ending;
pub(crate) mod entry;
pub(crate) mod lateness;
#[cfg(all(test, tokio_wheel_loom))]
pub(crate) mod loom_tests;
pub(crate) mod registrar;
pub(crate) mod room;
pub(crate) mod shard;
pub(crate) mod shared;
#[cfg(all(feature = "high-resolution", target_os = "linux"))]
pub(crate) mod timer_fd;
pub(crate) mod turn;
pub(crate) mod watch;
pub(crate) mod workers;

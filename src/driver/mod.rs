//! Floor 1: the driver of a timer, its shards, and the modules through which a registration passes.
//!
//! A timer has one or more shards. A shard is a wheel behind a lock. Worker threads register entries in
//! shards. The driver fires the entries when their ticks are reached. It has two halves, and one of them at a
//! time takes a turn:
//!
//! * the waker of the alarm, which the runtime calls where it fires the timers of `tokio::time`
//! * the driver's task, which does what is left
//!
//! # The way of an entry
//!
//! ```text
//!    a registration, on any thread
//!    -----------------------------
//!    registrar    rounds the deadline up to a tick (clock)
//!        |
//!        v
//!    entries      adds the entry to the wheel of a shard
//!        |
//!        |  only if the entry is earlier than all entries of the shard
//!        v
//!    arming       lowers the armed tick
//!        |
//!        |  only if that changes the armed tick
//!        v
//!    shared       on a worker of the runtime:                      ------>  parking, sets the alarm
//!                 elsewhere:                                       ------>  notifies the driver's task
//!
//!
//!    the driver, on a worker of its runtime
//!    --------------------------------------
//!    the alarm goes off                         a thread notifies the task
//!        |                                          |
//!        v                 something is left        v
//!    task: the waker  ------------------------>  task: the driver's task
//!        |                                          |
//!        v                                          v
//!    turn         fires the expired entries, one shard after the other     ------>  the futures' wakers
//!        |
//!        v
//!    arming       arms for the earliest tick of all shards
//!        |
//!        v
//!    parking      sets the alarm
//! ```
//!
//! | module | describes |
//! |---|---|
//! | [`registrar`] | how a future registers in one shard of a timer |
//! | [`left`] | the entries that dropped futures leave for the next futures |
//! | [`clock`] | the conversion between instants and ticks |
//! | [`task`] | the two halves: when each of them runs |
//! | [`turn`] | the work of one turn |
//! | [`visit`] | what a turn does under one hold of a shard's lock |
//! | [`room`] | how many tasks a turn may wake |
//! | [`shared`] | the state that registrations and both halves share, and how a registration makes the driver wake earlier |
//! | [`parking`] | the place where the turn and the alarm wait |
//! | [`alarm`] | the alarms that can wake the driver: tokio's time, or a `timerfd` |
//! | [`arming`] | the armed tick, and its race with registrations |
//! | [`shard`] | a wheel behind a lock, and the tick that it publishes |
//! | [`entries`] | the operations of a shard on its entries |
//! | [`watch`], [`workers`] | the thread that wakes a worker if another one blocks, and its rule |
//! | [`blocks`] | what the watch and a timer tell each other |
//! | [`lateness`] | the histogram of the lateness of entries |
//! | [`ending`] | how a timer ends |

pub(crate) mod alarm;
pub(crate) mod arming;
pub(crate) mod blocks;
pub(crate) mod clock;
pub(crate) mod ending;
pub(crate) mod entries;
pub(crate) mod lateness;
pub(crate) mod left;
#[cfg(all(test, tokio_wheel_loom))]
pub(crate) mod loom_tests;
pub(crate) mod parking;
pub(crate) mod registrar;
pub(crate) mod room;
pub(crate) mod shard;
pub(crate) mod shared;
pub(crate) mod task;
pub(crate) mod turn;
pub(crate) mod visit;
pub(crate) mod watch;
pub(crate) mod workers;

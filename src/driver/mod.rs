//! Floor 1: the driver task of a timer, its shards, and the modules through which a registration passes.
//!
//! A timer has one driver task and one or more shards. A shard is a wheel behind a lock. Worker threads
//! register entries in shards, and the driver fires the entries when their ticks are reached.
//!
//! # The way of an entry
//!
//! ```text
//!    a future's thread                                        the driver task
//!    -----------------                                        ---------------
//!
//!    registrar    rounds the deadline up to a tick
//!        |        (clock)
//!        v
//!    shard        adds the entry to its wheel
//!        |        (locked, limit)
//!        |
//!        |  only if the entry is earlier than
//!        |  all entries of the shard:
//!        v
//!    arming       lowers the armed tick           <--------   arms for the earliest tick of all shards
//!        |                                                        |
//!        |  only if that wakes the driver                         |
//!        |  earlier than before:                                  v
//!        +------> parking, sets the alarm         <--------   parking, waits for the alarm
//!                                                                 |
//!                                                                 |  the alarm goes off
//!                                                                 v
//!                                                             task, fires the expired entries,
//!                                                                   one shard after the other
//!                                                                 |
//!                                                                 v
//!                                                             the wakers of the futures
//! ```
//!
//! [`ending`] describes how a timer ends. [`handle`] describes what registrations and the driver share.

pub(crate) mod alarm;
pub(crate) mod arming;
pub(crate) mod clock;
pub(crate) mod core;
pub(crate) mod ending;
pub(crate) mod handle;
pub(crate) mod lateness;
pub(crate) mod lead;
pub(crate) mod limit;
pub(crate) mod locked;
#[cfg(all(test, tokio_wheel_loom))]
pub(crate) mod loom_tests;
pub(crate) mod parking;
pub(crate) mod registrar;
pub(crate) mod shard;
pub(crate) mod task;
pub(crate) mod turn;

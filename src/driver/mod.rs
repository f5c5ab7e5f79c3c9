//! Floor 1: the task that drives a timer, the shards that it looks after, and how a registration gets
//! there.

pub(crate) mod alarm;
pub(crate) mod arming;
pub(crate) mod clock;
pub(crate) mod core;
pub(crate) mod ending;
pub(crate) mod handle;
pub(crate) mod lateness;
pub(crate) mod limit;
pub(crate) mod locked;
#[cfg(all(test, tokio_wheel_loom))]
pub(crate) mod loom_tests;
pub(crate) mod parking;
pub(crate) mod registrar;
pub(crate) mod shard;
pub(crate) mod task;
pub(crate) mod worker;

//! Tests quinn on the wheel's timers.

mod loopback;
mod memory;
mod paused;
mod timer;

//! The programs on `tokio::time`. The modules take the crate from `super::time`.

use tokio::time;

#[path = "first_poll.rs"]
pub(super) mod first_poll;
#[path = "run.rs"]
pub(super) mod run;

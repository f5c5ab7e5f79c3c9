//! The programs on this crate. The modules take the crate from `super::time`.

#![expect(clippy::duplicate_mod, reason = "`theirs` has the same modules")]

use tokio_wheel as time;

#[path = "first_poll.rs"]
pub(super) mod first_poll;
#[path = "run.rs"]
pub(super) mod run;

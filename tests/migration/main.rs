//! What the migration guide says, and what its block of shell does.
//!
//! The block makes the files in `after/` of those in `before/`. The compiler sees both.

#[allow(
    unused,
    unreachable_pub,
    clippy::all,
    reason = "forms to change, used or not"
)]
mod after;
#[allow(
    unused,
    unreachable_pub,
    clippy::all,
    reason = "forms to change, used or not"
)]
mod before;
mod block;
mod facts;
mod names;

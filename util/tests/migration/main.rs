//! Tests the migration guide.
//!
//! The script of the guide must change the files in `before/` into the files in `after/`. The compiler checks both.

#[allow(
    unused,
    unreachable_pub,
    clippy::all,
    reason = "the files show forms of code"
)]
mod after;
#[allow(
    unused,
    unreachable_pub,
    clippy::all,
    reason = "the files show forms of code"
)]
mod before;
mod block;
mod facts;
mod names;

//! Tests the migration guide.
//!
//! The script of the guide must change the files in `before/` into the files in `after/`. The compiler checks both, and
//! `mended.rs`. `.ci/migration` runs the compiler on `breaks.rs`, and clippy on `misses.rs`.

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
#[cfg(all(feature = "http", feature = "io", feature = "stream"))]
mod mended;

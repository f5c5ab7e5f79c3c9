//! All forms of `use` items and paths that name `tokio::time`, after the script.

#[rustfmt::skip]
mod glob;
#[rustfmt::skip]
mod uses;

//! Every form of `use`, and of a path, that names `tokio::time`.

#[rustfmt::skip]
mod glob;
#[rustfmt::skip]
mod uses;

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The examples in the documentation pass the lints that users commonly deny.
#![doc(test(
    no_crate_inject,
    attr(deny(warnings, rust_2018_idioms)),
    attr(allow(unused, reason = "an example may only show an item"))
))]

//! Services and adapters of [`tokio_wheel`]: a queue of delayed elements, a set of keys that expire unless they
//! are touched, a scheduler of tasks, and timeouts for streams, I/O, tower, HTTP and hyper.
//!
//! Each of them is a feature, and no feature is on by default. They use only the public interface of [`tokio_wheel`], as
//! a program of your own would.
//!
//! | need | module | feature |
//! |---|---|---|
//! | limit a future and all that it calls, also on other servers | [`deadline`] | `deadline` |
//! | expire the elements of a queue | [`delay_queue`] | `delay_queue` |
//! | expire keys that are not touched for some time | [`idle`] | `idle` |
//! | start tasks later, once or periodically | [`schedule`] | `schedule` |
//! | limit, throttle or chunk a stream by time | [`stream`] | `stream` |
//! | give a connection read, write and idle timeouts, and minimum rates | [`io`] | `io` |
//! | copy between two connections, with an idle and a half-close timeout | [`io::tunnel`](io::tunnel()) | `io` |
//! | give hyper a timer, and limit a server's connections | [`hyper`] | `hyper` |
//! | serve an axum router or a tower service, with these limits | [`serve`](hyper::serve()), [below](#a-server-with-limits) | `serve`, with `hyper` |
//! | limit the time of HTTP requests and bodies | tower layers in [`http`] | `http`, with `tower` |
//! | limit the time of a tower service | [`tower`] | `tower` |
//!
//! Three names are used twice, so import them with their modules:
//!
//! | name | modules |
//! |---|---|
//! | `Limits` | [`hyper`] has limits of connections, and [`io`] of reads and writes |
//! | `LimitExceeded` | the errors of a body in [`http`], and of a read or write in [`io`] |
//! | `TimeoutLayer` | in [`http`] it responds with a status code, and in [`tower`] the request fails |
//!
//! # A server with limits
//!
//! `axum::serve` keeps idle connections open for as long as their clients want. With the feature `serve`, a server
//! closes them, and shuts down gracefully within a limit. The call has the shape of `axum::serve`:
//!
#![cfg_attr(feature = "serve", doc = "```no_run")]
#![cfg_attr(not(feature = "serve"), doc = "```ignore")]
//! use tokio_wheel::Duration;
//! use tokio_wheel_util::{hyper::Limits, serve};
//!
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     let app = axum::Router::new().route("/", axum::routing::get(async || "hello"));
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//!     serve(listener, app)
//!         .limits(Limits::new().idle(Duration::from_secs(60)).max_age(Duration::from_secs(600)))
//!         .with_graceful_shutdown(async { tokio::signal::ctrl_c().await.unwrap() })
//!         .await
//! }
//! ```
//!
//! # Which timer an adapter uses
//!
//! An adapter uses the default timer of the runtime that polls it, unless its constructor takes a
//! [`Timer`](tokio_wheel::Timer).

#[cfg(any(feature = "delay_queue", feature = "idle", feature = "schedule"))]
#[allow(unused, reason = "each service uses a part of these helpers")]
mod ground;
#[allow(unused, reason = "each adapter uses a part of these helpers")]
mod limit;

#[cfg(feature = "deadline")]
pub mod deadline;
#[cfg(feature = "delay_queue")]
pub mod delay_queue;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "idle")]
pub mod idle;
#[cfg(feature = "io")]
pub mod io;
#[cfg(feature = "schedule")]
pub mod schedule;
#[cfg(feature = "stream")]
pub mod stream;
#[cfg(feature = "tower")]
pub mod tower;

#[cfg(feature = "serve")]
pub use hyper::serve;

// Compiles and runs the examples of the pages as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../../docs/migration.md")]
struct Migration;
#[cfg(doctest)]
#[doc = include_str!("../../docs/recipes.md")]
struct Recipes;

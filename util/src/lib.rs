#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The examples in the documentation pass the lints that users commonly deny.
#![doc(test(
    no_crate_inject,
    attr(deny(warnings, rust_2018_idioms)),
    attr(allow(unused, reason = "an example may only show an item"))
))]

//! Connection limits, request deadlines, a scheduler and timeout adapters for tokio, on the timers of [`tokio_wheel`].
//!
//! Each module is behind a feature, and no feature is on by default.
//!
//! | need | module | feature |
//! |---|---|---|
//! | a deadline for a request and everything it calls, even on other servers | [`deadline`] | `deadline` |
//! | a queue that returns each element after its deadline | [`delay_queue`] | `delay_queue` |
//! | keys that expire unless they are touched | [`idle`] | `idle` |
//! | tasks that run later, once or periodically | [`schedule`] | `schedule` |
//! | timeouts, throttling, debouncing and chunking for streams | [`stream`] | `stream` |
//! | read, write and idle timeouts, and minimum rates, for a connection | [`io`] | `io` |
//! | copying in both directions, as in a proxy, with an idle and a half-close timeout | [`io::tunnel`](io::tunnel()) | `io` |
//! | connection limits in your own accept loop, and a timer for hyper | [`hyper`] | `hyper` |
//! | a server with connection limits for an axum router or a tower service | [`serve`](hyper::serve()), [below](#a-server-with-limits) | `serve` |
//! | timeouts for HTTP requests and bodies, as tower layers | [`http`] | `http` |
//! | a timeout for a tower service | [`tower`] | `tower` |
//!
//! Three names exist in two modules:
//!
//! | name | modules |
//! |---|---|
//! | `Limits` | in [`hyper`], connection limits; in [`io`], limits for reads and writes |
//! | `LimitExceeded` | in [`http`], the error of a body; in [`io`], the error of a read or write |
//! | `TimeoutLayer` | in [`http`], responds with a status code; in [`tower`], fails the request |
//!
//! # A server with limits
//!
//! `axum::serve` keeps idle connections open for as long as their clients want. [`serve`](hyper::serve()) closes them, and
//! limits the time of a graceful shutdown. You call it like `axum::serve`:
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
//! An adapter uses the default timer of the runtime that polls it, which may be one that you
//! [installed](tokio_wheel::Builder::install). Only the services and [`WheelTimer`](hyper::WheelTimer) have a
//! constructor that takes a [`Timer`](tokio_wheel::Timer).

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

//! Each line with `// found` uses a timer that is not on the wheel. `.ci/migration` runs clippy with the `clippy.toml`
//! of the guide. Clippy must warn about these lines, and about no other line.

#![allow(unused, clippy::all, reason = "the next attribute turns on the lints that matter")]
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

use std::{future::pending, time::Duration};

const ZERO: Duration = Duration::ZERO;

mod renamed {
    use super::*;
    use tokio as rt;
    use tokio::time as clock;
    use tokio::time::sleep as nap;
    use tokio::{sync::mpsc, time::{self as nested, timeout}};
    async fn all() {
        rt::time::sleep(ZERO).await; // found
        clock::sleep(ZERO).await; // found
        nap(ZERO).await; // found
        nested::sleep(ZERO).await; // found
        let _ = timeout(ZERO, pending::<()>()).await; // found
    }
}

mod globbed {
    use super::*;
    use tokio::time::*;
    use tokio::*;
    async fn all() {
        sleep_until(Instant::now()).await; // found
        time::sleep(ZERO).await; // found
    }
}

mod exported {
    pub use tokio;
    pub use tokio::time;
    pub use tokio::time::interval;
    pub use tokio::time::*;
}

async fn through_exports() {
    exported::tokio::time::sleep(ZERO).await; // found
    exported::time::sleep(ZERO).await; // found
    exported::sleep(ZERO).await; // found
    exported::interval(ZERO); // found
}

macro_rules! expression {
    () => { tokio::time::sleep(ZERO) }; // found
}
macro_rules! function {
    ($function:path) => { $function(ZERO) }; // found
}

async fn in_macros() {
    expression!().await;
    function!(tokio::time::sleep).await;
    tokio::select! {
        () = tokio::time::sleep(ZERO) => {} // found
        () = pending() => {}
    }
    let _ = tokio::join!(tokio::time::timeout(ZERO, pending::<()>())); // found
    println!("{:?}", tokio::time::sleep(ZERO)); // found
}

async fn as_values() {
    let function = tokio::time::sleep; // found
    let pointer: fn(Duration) -> _ = tokio::time::sleep; // found
    let mapped = [ZERO].map(tokio::time::sleep); // found
    let interval = tokio::time::interval_at(tokio::time::Instant::now(), ZERO); // found
    let late = tokio::time::timeout_at(tokio::time::Instant::now(), pending::<()>()); // found
    tokio::time::advance(ZERO).await; // found
}

struct Held {
    sleep: std::pin::Pin<Box<tokio::time::Sleep>>, // found
    interval: Option<tokio::time::Interval>, // found
}
type Limited<F> = tokio::time::Timeout<F>; // found
use tokio::time::Sleep; // found
use tokio::time::Sleep as Renamed; // found
fn is_elapsed(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<tokio::time::error::Elapsed>() // found
}
enum Failure {
    Late(exported::time::error::Elapsed), // found
}
fn by_its_path(elapsed: exported::time::error::Elapsed) { // found
    // Clippy does not find a path in a pattern.
    match elapsed { tokio::time::error::Elapsed { .. } => {} }
}

fn of_tokio_stream(timeouts: [impl tokio_stream::Stream<Item = u8>; 4]) {
    use tokio_stream::{StreamExt, wrappers::IntervalStream}; // found
    let [first, second, third, fourth] = timeouts;
    first.timeout(ZERO); // found
    second.timeout_repeating(todo!()); // found
    third.throttle(ZERO); // found
    StreamExt::chunks_timeout(fourth, 1, ZERO); // found
    type One<S> = tokio_stream::adapters::Timeout<S>; // found
    type Two<S> = tokio_stream::adapters::TimeoutRepeating<S>; // found
    type Three<S> = tokio_stream::adapters::ChunksTimeout<S>; // found
    type Four = tokio_stream::Elapsed; // found
}

fn of_tokio_util(at: tokio::time::Instant) {
    use tokio_util::{future::FutureExt, time::delay_queue};
    pending::<()>().timeout(ZERO); // found
    pending::<()>().timeout_at(at); // found
    type One = tokio_util::time::DelayQueue<u8>; // found
    type Two = delay_queue::Key; // found
    type Three = delay_queue::Expired<u8>; // found
}

fn of_tokio_io_timeout() {
    type One<S> = tokio_io_timeout::TimeoutReader<S>; // found
    type Two<S> = tokio_io_timeout::TimeoutWriter<S>; // found
    let three = tokio_io_timeout::TimeoutStream::new(tokio::io::empty()); // found
}

fn of_hyper_util() {
    let timer = hyper_util::rt::TokioTimer::new(); // found
}

fn of_tower() {
    tower::ServiceBuilder::new().timeout(ZERO); // found
    let layer = tower::timeout::TimeoutLayer::new(ZERO); // found
    type One<S> = tower::timeout::Timeout<S>; // found
    type Two<F> = tower::timeout::future::ResponseFuture<F>; // found
    type Three = tower::timeout::error::Elapsed; // found
}

fn of_tower_http() {
    use tower_http::timeout;
    type One = timeout::TimeoutLayer; // found
    type Two<S> = timeout::Timeout<S>; // found
    type Three = timeout::RequestBodyTimeoutLayer; // found
    type Four<S> = timeout::RequestBodyTimeout<S>; // found
    type Five = timeout::ResponseBodyTimeoutLayer; // found
    type Six<S> = timeout::ResponseBodyTimeout<S>; // found
    type Seven<B> = timeout::TimeoutBody<B>; // found
    type Eight = timeout::TimeoutError; // found
}

fn of_tower_http_7() {
    use tower_http_7::timeout;
    type One = timeout::RequestBodyDeadlineLayer; // found
    type Two<S> = timeout::RequestBodyDeadline<S>; // found
    type Three = timeout::ResponseBodyDeadlineLayer; // found
    type Four<S> = timeout::ResponseBodyDeadline<S>; // found
    type Five<B> = timeout::DeadlineBody<B>; // found
    type Six = timeout::TimeoutLayer; // found
}

mod of_quinn {
    use quinn::TokioRuntime; // found
    fn all(at: std::net::SocketAddr) {
        let client = quinn::Endpoint::client(at); // found
        let server = quinn::Endpoint::server(todo!(), at); // found
        let runtime = quinn::default_runtime(); // found
        // Clippy does not find the full path of a value.
        let runtime = quinn::TokioRuntime;
    }
}

//! Compares `TimeoutLayer` with `tower::timeout` under the paused clock. Outcomes and instants must be equal.

#![cfg(feature = "tower")]

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use axum::BoxError;
use tokio::task::coop;
use tokio_wheel::{Instant, Timer, advance, error::Elapsed};
use tokio_wheel_util::tower::{Timeout, TimeoutLayer};
use tower::{Layer, Service, ServiceExt as _, service_fn};

use crate::support::{
    log::{Log, side_by_side},
    ms,
};

/// Both crates with the same names. Each body also sleeps with its own crate, since the order of two entries of
/// different crates with the same deadline is undefined.
mod original {
    pub(super) use tokio::time::sleep;
    pub(super) use tower::timeout::{Timeout, TimeoutLayer, error::Elapsed};
}
mod wheel {
    pub(super) use tokio_wheel::{error::Elapsed, sleep};
    pub(super) use tokio_wheel_util::tower::{Timeout, TimeoutLayer};
}

impl Log {
    /// Notes a response. It omits the text of `E`, since the texts of the two crates differ.
    fn outcome<E: std::error::Error + 'static>(&self, outcome: Result<u64, BoxError>) {
        match outcome {
            Ok(response) => self.note(response),
            Err(error) if error.is::<E>() => self.note("elapsed"),
            Err(error) => self.note(error.to_string()),
        }
    }
}

/// Responds after a number of milliseconds. Fails if the number is odd.
async fn after(sleep: impl Future<Output = ()>, millis: u64) -> Result<u64, String> {
    sleep.await;
    if millis % 2 == 0 {
        Ok(millis)
    } else {
        Err(format!("{millis} is odd"))
    }
}

side_by_side! {
    (original) (wheel)

    async fn responses_in_time_and_too_late(tower, log) {
        let after = |millis| after(tower::sleep(ms(millis)), millis);
        let mut service = tower::TimeoutLayer::new(ms(100)).layer(service_fn(after));
        for millis in [0, 1, 50, 99, 100, 101, 102, 5_000] {
            log.outcome::<tower::Elapsed>(service.ready().await.unwrap().call(millis).await);
        }
    }

    /// The first poll of the response does not matter.
    async fn the_limit_counts_from_the_call(tower, log) {
        let after = |millis| after(tower::sleep(ms(millis)), millis);
        let mut service = tower::Timeout::new(service_fn(after), ms(100));
        let response = service.call(60);
        tower::sleep(ms(70)).await;
        log.outcome::<tower::Elapsed>(response.await);

        let response = service.call(10);
        tower::sleep(ms(200)).await;
        log.outcome::<tower::Elapsed>(response.await);
    }

}

#[tokio::test(start_paused = true)]
async fn each_request_has_its_own_limit() {
    let limit = |millis: &u64| (*millis > 0).then_some(ms(*millis));
    let takes_50 = service_fn(async |n: u64| {
        tokio::time::sleep(ms(50)).await;
        Ok::<_, BoxError>(n)
    });
    let layer = TimeoutLayer::new(limit);
    let mut service = layer.layer(takes_50);
    for (request, takes) in [(10, 10), (100, 50), (0, 50)] {
        let start = Instant::now();
        let outcome = service.call(request).await;
        assert_eq!(
            (outcome.is_err(), start.elapsed()),
            (takes == 10, ms(takes))
        );
    }
    // A request without a limit registers nothing.
    assert_eq!(Timer::current().metrics().registered(), 2);
}

/// The original never cuts off such a service, since its limit needs budget too.
#[tokio::test(start_paused = true)]
async fn a_service_that_uses_up_the_budget_is_cut_off() {
    let greedy = service_fn(async |_: u64| {
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            assert!(polls < 10_000, "the limit never fails the request");
            while pin!(coop::consume_budget()).poll(cx).is_ready() {}
            Poll::<Result<u64, BoxError>>::Pending
        })
        .await
    });
    let response = tokio::spawn(Timeout::new(greedy, ms(10)).call(0));
    crate::support::settle().await;
    assert!(!response.is_finished());
    advance(ms(10)).await;
    assert!(response.await.unwrap().unwrap_err().is::<Elapsed>());
}

//! Tests the grace: requests in flight have this time to end, then the connection is cut.

use http_body_util::BodyExt as _;
use tokio_wheel::{Duration, sleep};
use tokio_wheel_util::hyper::{Connections, Limits, Reason};

use crate::{
    server::{Server, cut, each, quiet},
    support::{ms, panics::panic_of, secs},
};

fn limits() -> Limits {
    Limits::new().max_age(secs(10)).jitter(0.0).grace(secs(5))
}

#[test]
fn nothing_is_lost_within_the_grace() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        sleep(secs(9)).await;
        assert_eq!(
            client.get("/frames/6/999").await.unwrap(),
            24,
            "{protocol:?}"
        );
        let end = end.await.unwrap();
        assert_eq!(end, quiet(Reason::MaxAge, ms(14_994)), "{protocol:?}");
        assert_eq!(server.connections.counts().cut(), 0);
    });
}

#[test]
fn what_takes_longer_is_cut() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        sleep(secs(9)).await;
        let body = client.ask("/frames/7/999").await.unwrap().into_body();
        assert!(body.collect().await.is_err(), "{protocol:?}");
        let end = end.await.unwrap();
        assert_eq!(end, cut(Reason::MaxAge, 1, secs(15)), "{protocol:?}");
        let counts = server.connections.counts();
        assert_eq!((counts.max_age(), counts.cut(), counts.open()), (1, 1, 0));
    });
}

#[test]
fn all_that_is_in_flight_counts_as_lost() {
    each(async |protocol| {
        if protocol.is_http1() {
            return;
        }
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        let (mut second, mut third) = (client.another(), client.another());
        let (lost, also_lost, kept) = tokio::join!(
            client.get("/after/15001"),
            second.get("/frames/100/1000"),
            third.get("/after/14999"),
        );
        assert!(lost.is_err() && also_lost.is_err() && kept.is_ok());
        assert_eq!(end.await.unwrap(), cut(Reason::MaxAge, 2, secs(15)));
    });
}

#[test]
fn there_is_a_grace_by_default() {
    each(async |protocol| {
        let limits = Limits::new().max_age(secs(10)).jitter(0.0);
        let server = Server::new(protocol, limits);
        let (mut client, end) = server.client().await;
        assert!(client.get("/after/60000").await.is_err());
        assert_eq!(
            end.await.unwrap(),
            cut(Reason::MaxAge, 1, secs(40)),
            "{protocol:?}"
        );
    });
}

#[test]
fn a_grace_of_zero_cuts_at_once_and_an_endless_one_never() {
    each(async |protocol| {
        let server = Server::new(protocol, limits().grace(secs(0)));
        let (mut client, end) = server.client().await;
        assert!(client.get("/after/60000").await.is_err());
        assert_eq!(
            end.await.unwrap(),
            cut(Reason::MaxAge, 1, secs(10)),
            "{protocol:?}"
        );

        let server = Server::new(protocol, limits().grace(Duration::MAX));
        let (mut client, end) = server.client().await;
        let days = 40 * 86_400;
        let path = format!("/after/{}", days * 1_000);
        assert_eq!(client.get(&path).await.unwrap(), 4);
        assert_eq!(
            end.await.unwrap(),
            quiet(Reason::MaxAge, secs(days)),
            "{protocol:?}"
        );
    });
}

/// Limits that are out of range panic in the code of the caller.
#[test]
fn limits_are_checked() {
    let message = |limits: fn() -> Limits| {
        let panicked = panic_of(|| Connections::new(limits()));
        assert_eq!(panicked.file, file!());
        panicked.message
    };
    assert_eq!(
        message(|| Limits::new().jitter(1.5)),
        "jitter must be between 0 and 1, got 1.5"
    );
    assert_eq!(
        message(|| Limits::new().jitter(f64::NAN)),
        "jitter must be between 0 and 1, got NaN"
    );
    assert_eq!(
        message(|| Limits::new().max_connections(0)),
        "max_connections must be at least 1, got 0"
    );
    assert_eq!(
        message(|| Limits::new().min_idle(secs(61)).idle(secs(60))),
        "min_idle must be at most idle (60s), got 61s"
    );
}

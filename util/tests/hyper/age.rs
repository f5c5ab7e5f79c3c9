//! Tests the maximum age and the jitter.

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_wheel::sleep;
use tokio_wheel_util::hyper::{Limits, Reason};

use crate::{
    server::{Protocol, Server, each, quiet},
    support::{ms, paused, secs},
};

fn limits() -> Limits {
    Limits::new().max_age(secs(100)).jitter(0.0)
}

#[test]
fn a_connection_in_use_ends_at_its_age() {
    each(async |protocol| {
        let server = Server::new(protocol, limits().idle(secs(10)));
        let (mut client, end) = server.client().await;
        while client.get("/after/700").await.is_ok() {
            sleep(ms(1_200)).await;
        }
        // Each of the 53 requests took 1.9 s. No request arrives in the instant at which the connection reaches its age.
        assert_eq!(
            end.await.unwrap(),
            quiet(Reason::MaxAge, secs(100)),
            "{protocol:?}"
        );
        assert_eq!(server.connections.counts().max_age(), 1);
    });
}

#[test]
fn a_request_in_flight_is_answered_and_no_other() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        sleep(secs(95)).await;
        let answer = client.ask("/frames/4/3000").await.unwrap();
        sleep(secs(6)).await;
        if !protocol.is_http1() {
            assert!(client.another().get("/after/0").await.is_err(), "GOAWAY");
        }
        let body = answer.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes().len(), 16);
        assert!(client.get("/after/0").await.is_err());
        assert_eq!(
            end.await.unwrap(),
            quiet(Reason::MaxAge, secs(107)),
            "{protocol:?}"
        );
    });
}

/// The last response tells an HTTP/1 client that the connection closes.
#[test]
fn the_last_answer_says_so() {
    each(async |protocol| {
        if !protocol.is_http1() {
            return;
        }
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.connect();
        let request = b"GET /after/60000 HTTP/1.1\r\n\r\n";
        for last in [false, true] {
            client.write_all(request).await.unwrap();
            let mut answer = [0; 1_024];
            let length = client.read(&mut answer).await.unwrap();
            let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
            assert_eq!(
                answer.contains("connection: close"),
                last,
                "{protocol:?}: {answer}"
            );
        }
        assert_eq!(end.await.unwrap(), quiet(Reason::MaxAge, secs(120)));
    });
}

/// Clients that connect at the same time leave at different times. No client stays longer than the maximum age.
#[test]
fn a_herd_is_spread() {
    const HERD: usize = 1_000;
    for (jitter, from) in [(None, 90_000), (Some(0.5), 50_000), (Some(1.0), 0)] {
        paused().block_on(async {
            let mut limits = Limits::new().max_age(secs(100));
            if let Some(jitter) = jitter {
                limits = limits.jitter(jitter);
            }
            let server = Server::new(Protocol::Http1, limits);
            let herd: Vec<_> = (0..HERD).map(|_| server.connect()).collect();
            let mut buckets = [0; 10];
            for (_client, end) in herd {
                let end = end.await.unwrap();
                assert_eq!(end.reason, Reason::MaxAge);
                let millis = end.age.as_millis() as usize;
                // Ages round up to a millisecond.
                assert!((from..=100_000).contains(&millis), "{millis} ms");
                buckets[((millis - from) * 10 / (100_001 - from)).min(9)] += 1;
            }
            // Each bucket has 100 on average, with a standard deviation of less than 10.
            let is_even = buckets.iter().all(|bucket| (30..=170).contains(bucket));
            assert!(is_even, "{buckets:?}");
        });
    }
}

//! Tests the idle limit: how long a connection may have no request in flight.

use std::{
    future::{Future as _, poll_fn},
    pin::pin,
};

use http_body_util::BodyExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::coop,
};
use tokio_wheel::{Instant, sleep, sleep_until};
use tokio_wheel_util::hyper::{Connections, Limits, Reason};

use crate::{
    server::{Http1, Server, each, quiet, serve},
    support::{ms, paused, secs, settle},
};

fn limits() -> Limits {
    Limits::new().idle(secs(10))
}

#[test]
fn a_connection_without_a_request_ends() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let (client, end) = server.client().await;
        let mut expected = quiet(Reason::Idle, secs(10));
        if matches!(
            protocol,
            crate::server::Auto1 | crate::server::Auto1Upgrades
        ) {
            // The client has sent nothing, so `auto` does not know the protocol.
            expected.is_ok = false;
        }
        assert_eq!(end.await.unwrap(), expected, "{protocol:?}");
        drop(client);
    });
}

#[test]
fn the_limit_counts_from_the_end_of_the_last_request() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        for (pause, path) in [(9_999, "/after/0"), (1, "/after/3000"), (9_000, "/after/0")] {
            sleep(ms(pause)).await;
            assert_eq!(client.get(path).await.unwrap(), 4, "{protocol:?}");
        }
        let expected = quiet(Reason::Idle, ms(9_999 + 1 + 3_000 + 9_000 + 10_000));
        assert_eq!(end.await.unwrap(), expected, "{protocol:?}");
        assert!(client.get("/after/0").await.is_err());
    });
}

#[test]
fn a_long_request_outlives_it() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        assert_eq!(client.get("/after/35000").await.unwrap(), 4, "{protocol:?}");
        assert!(!end.is_finished());
        let end = end.await.unwrap();
        assert_eq!(end, quiet(Reason::Idle, secs(45)), "{protocol:?}");
    });
}

#[test]
fn a_body_that_streams_outlives_it() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        // The body pauses for longer than the limit.
        assert_eq!(
            client.get("/frames/5/12000").await.unwrap(),
            20,
            "{protocol:?}"
        );
        let end = end.await.unwrap();
        assert_eq!(end, quiet(Reason::Idle, secs(70)), "{protocol:?}");
    });
}

/// A client of HTTP/2 can cancel a response without closing the connection.
#[test]
fn an_answer_that_the_client_gives_up_is_no_longer_in_flight() {
    each(async |protocol| {
        if protocol.is_http1() {
            return;
        }
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        let mut body = client.ask("/frames/100/1000").await.unwrap().into_body();
        for _ in 0..3 {
            body.frame().await.unwrap().unwrap();
        }
        drop(body);
        let end = end.await.unwrap();
        assert_eq!(end, quiet(Reason::Idle, secs(13)), "{protocol:?}");
    });
}

#[test]
fn requests_at_once_count_until_the_last_has_ended() {
    each(async |protocol| {
        if protocol.is_http1() {
            return;
        }
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        let (mut other, mut third) = (client.another(), client.another());
        let answers = tokio::join!(
            client.get("/after/11000"),
            other.get("/frames/3/5000"),
            third.get("/after/2000")
        );
        assert!(answers.0.is_ok() && answers.1.is_ok() && answers.2.is_ok());
        let end = end.await.unwrap();
        assert_eq!(end, quiet(Reason::Idle, secs(25)), "{protocol:?}");
    });
}

#[test]
fn without_a_limit_a_connection_stays() {
    each(async |protocol| {
        let server = Server::new(protocol, Limits::new());
        let (mut client, end) = server.client().await;
        for days in [1, 3, 30] {
            sleep(secs(days * 86_400)).await;
            assert_eq!(client.get("/after/0").await.unwrap(), 4);
        }
        assert!(!end.is_finished());
        drop(client);
        assert_eq!(end.await.unwrap().reason, Reason::Closed);
    });
}

/// A limit of zero closes a connection without a request at once. It still serves a request of HTTP/1 that the client
/// has sent already.
#[test]
fn a_limit_of_zero_serves_what_is_there() {
    each(async |protocol| {
        let server = Server::new(protocol, Limits::new().idle(secs(0)));
        if protocol.is_http1() {
            let (mut client, end) = server.connect();
            client
                .write_all(b"GET /after/100 HTTP/1.1\r\n\r\n")
                .await
                .unwrap();
            settle().await;
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 200 OK"),
                "{protocol:?}: {answer}"
            );
            let end = end.await.unwrap();
            assert_eq!(end, quiet(Reason::Idle, ms(100)), "{protocol:?}");
        }
    });
}

/// Other work of the task uses up its budget in the first polls after the connection has reached the limit. So the
/// connection reads nothing in these polls.
#[test]
fn a_request_counts_though_the_budget_is_spent() {
    paused().block_on(async {
        let start = Instant::now();
        let limit = secs(10);
        let connections = Connections::new(Limits::new().idle(limit));
        let lifetime = connections.open().unwrap();
        let (mut client, io) = tokio::io::duplex(1_024);
        tokio::spawn(async move {
            let mut drive = pin!(serve(Http1, lifetime, io));
            let mut polls = 0;
            poll_fn(|cx| {
                polls += u32::from(start.elapsed() >= limit);
                if (1..30).contains(&polls) {
                    while coop::has_budget_remaining() {
                        let _ = pin!(coop::consume_budget()).poll(cx);
                    }
                }
                drive.as_mut().poll(cx)
            })
            .await
        });
        // This task runs in the same instant as the `Drive`, and before it.
        let answer = tokio::spawn(async move {
            sleep_until(start + limit).await;
            let request = b"GET /after/0 HTTP/1.1\r\n\r\n";
            client.write_all(request).await.unwrap();
            let mut answer = [0; 12];
            client.read_exact(&mut answer).await.unwrap();
            answer
        });
        assert_eq!(&answer.await.unwrap(), b"HTTP/1.1 200");
    });
}

/// Other work of the task uses up its budget in every poll.
#[test]
fn the_limit_ends_a_connection_whose_budget_is_always_spent() {
    paused().block_on(async {
        let start = Instant::now();
        let limit = secs(10);
        let connections = Connections::new(Limits::new().idle(limit));
        let lifetime = connections.open().unwrap();
        let (_client, io) = tokio::io::duplex(1_024);
        let mut drive = pin!(serve(Http1, lifetime, io));
        let mut polls = 0;
        let end = poll_fn(|cx| {
            if start.elapsed() >= limit {
                polls += 1;
                assert!(polls < 1_000, "the connection must end");
                while coop::has_budget_remaining() {
                    let _ = pin!(coop::consume_budget()).poll(cx);
                }
            }
            drive.as_mut().poll(cx)
        });
        assert_eq!(end.await, quiet(Reason::Idle, limit));
    });
}

//! Tests the counts of requests and connections, for every way in which they end.

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_wheel::sleep;
use tokio_wheel_util::hyper::{Connections, Limits, OpenError, Reason};

use crate::{
    server::{Http1, Server, each, quiet},
    support::{assert_message, paused, secs, settle},
};

/// A request ends when its service panics or fails. An HTTP/1 connection ends then too.
#[test]
fn a_service_that_panics_ends_its_request() {
    each(async |protocol| {
        for path in ["/panic", "/fail"] {
            let server = Server::new(protocol, Limits::new().idle(secs(10)));
            let (mut client, end) = server.client().await;
            assert!(client.get(path).await.is_err());
            let counts = || server.connections.counts();
            if protocol.is_http1() {
                let end = end.await;
                if path == "/panic" {
                    assert!(end.unwrap_err().is_panic());
                    assert_eq!((counts().open(), counts().dropped()), (0, 1));
                } else {
                    assert_eq!(end.unwrap().reason, Reason::Closed);
                }
            } else {
                sleep(secs(4)).await;
                let _ = client.get("/after/1000").await;
                let end = end.await.unwrap();
                assert_eq!(end, quiet(Reason::Idle, secs(15)), "{protocol:?}");
            }
            server.connections.shutdown().await;
        }
    });
}

#[test]
fn each_end_counts_once() {
    each(async |protocol| {
        let limits = Limits::new()
            .idle(secs(10))
            .max_age(secs(25))
            .jitter(0.0)
            .grace(secs(5));
        let server = Server::new(protocol, limits);
        let counts = || {
            let counts = server.connections.counts();
            [
                counts.open(),
                counts.closed(),
                counts.idle(),
                counts.max_age(),
                counts.shutdown(),
                counts.dropped(),
                counts.cut(),
            ]
        };
        let (client, end) = server.client().await;
        assert_eq!(counts(), [1, 0, 0, 0, 0, 0, 0]);
        settle().await;
        drop(client);
        assert_eq!(end.await.unwrap().reason, Reason::Closed);
        assert_eq!(counts(), [0, 1, 0, 0, 0, 0, 0]);

        let (_client, end) = server.client().await;
        end.await.unwrap();
        assert_eq!(counts(), [0, 1, 1, 0, 0, 0, 0]);

        let (mut client, end) = server.client().await;
        assert!(client.get("/after/60000").await.is_err());
        assert_eq!(end.await.unwrap().age, secs(30));
        assert_eq!(counts(), [0, 1, 1, 1, 0, 0, 1]);

        let (_client, end) = server.client().await;
        settle().await;
        end.abort();
        assert!(end.await.unwrap_err().is_cancelled());
        drop(server.connections.open());
        assert_eq!(counts(), [0, 1, 1, 1, 0, 2, 1]);

        let (mut client, end) = server.client().await;
        client.get("/after/0").await.unwrap();
        server.connections.shutdown().await;
        end.await.unwrap();
        assert_eq!(counts(), [0, 1, 1, 1, 1, 2, 1]);
    });
}

#[test]
fn there_is_room_again_when_a_connection_has_ended() {
    each(async |protocol| {
        let server = Server::new(protocol, Limits::new().max_connections(2).idle(secs(10)));
        let (_first, end) = server.client().await;
        let second = server.connections.open().unwrap();
        let full = server.connections.open().unwrap_err();
        let is_full = matches!(
            full,
            OpenError::Full {
                open: 2,
                limit: 2,
                ..
            }
        );
        assert!(is_full, "{full:?}");
        assert_message(&full, &["2 are open", "at most 2"]);
        drop(second);
        let third = server.connections.open().unwrap();
        assert!(server.connections.open().is_err());
        end.await.unwrap();
        let fourth = server.connections.open().unwrap();
        assert!(server.connections.open().is_err());
        drop((third, fourth));
        assert_eq!(server.connections.counts().open(), 0);
    });
}

/// The limits stay in force after the last handle is dropped.
#[test]
fn limits_hold_when_the_handle_is_dropped() {
    each(async |protocol| {
        let server = Server::new(protocol, Limits::new().idle(secs(10)));
        let (mut client, end) = server.client().await;
        client.get("/after/0").await.unwrap();
        drop(server);
        assert_eq!(
            end.await.unwrap(),
            quiet(Reason::Idle, secs(10)),
            "{protocol:?}"
        );
    });
}

/// hyper never polls the body of a response to `HEAD`. It drops the body at once.
#[test]
fn a_body_that_is_not_asked_for_is_not_in_flight() {
    paused().block_on(async {
        let server = Server::new(Http1, Limits::new().idle(secs(10)));
        let (mut client, end) = server.connect();
        client
            .write_all(b"HEAD /frames/10/5000 HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert_eq!(end.await.unwrap(), quiet(Reason::Idle, secs(10)));
    });
}

/// Every clone of a service counts the requests of its connection. A body counts until it is dropped.
#[test]
fn what_the_service_returns_counts_until_it_is_dropped() {
    use http_body_util::{Empty, Full};
    use hyper::{
        Request, Response,
        body::{Body as _, Bytes},
        service::{Service as _, service_fn},
    };

    paused().block_on(async {
        let connections = Connections::new(Limits::new());
        let lifetime = connections.open().unwrap();
        let service = lifetime.service(service_fn(|_request: Request<Empty<Bytes>>| async {
            let body = Full::new(Bytes::from_static(b"four"));
            Ok::<_, std::convert::Infallible>(Response::new(body))
        }));
        let in_flight = || {
            let text = format!("{lifetime:?}");
            let (_, number) = text.split_once("in_flight: ").unwrap();
            number
                .split([',', ' '])
                .next()
                .unwrap()
                .parse::<usize>()
                .unwrap()
        };
        assert_eq!(in_flight(), 0);
        let unpolled = service.call(Request::new(Empty::new()));
        let polled = service.clone().call(Request::new(Empty::new()));
        assert_eq!(in_flight(), 2);
        drop(unpolled);
        assert_eq!(in_flight(), 1);
        let mut body = polled.await.unwrap().into_body();
        assert_eq!(
            (body.size_hint().exact(), body.is_end_stream()),
            (Some(4), false)
        );
        let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((data, in_flight()), (Bytes::from_static(b"four"), 1));
        assert!(body.is_end_stream());
        assert!(body.frame().await.is_none());
        assert_eq!(in_flight(), 0);
        drop(body);
        let body = service.call(Request::new(Empty::new())).await.unwrap();
        assert_eq!(in_flight(), 1);
        drop(body);
        assert_eq!(in_flight(), 0);
    });
}

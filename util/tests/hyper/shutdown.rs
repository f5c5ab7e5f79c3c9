//! Tests the shutdown of a server.

use hyper::{Response, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_wheel::{Instant, sleep};
use tokio_wheel_util::hyper::{Connections, Limits, OpenError, Reason};

use crate::{
    server::{Auto1, Auto1Upgrades, Http1, Http2, Server, cut, each, quiet},
    support::{does_not_hang, multi_thread, paused, poll_once, secs, settle},
};

#[test]
fn idle_connections_end_at_once_and_busy_ones_with_their_answer() {
    each(async |protocol| {
        let server = Server::new(protocol, Limits::new());
        let (mut idle, idle_end) = server.client().await;
        idle.get("/after/0").await.unwrap();
        let (mut busy, busy_end) = server.client().await;
        let answer = tokio::spawn(async move { busy.get("/frames/5/1000").await });
        let (_silent, silent_end) = server.connect();
        sleep(secs(2)).await;

        let start = Instant::now();
        server.connections.shutdown().await;
        let expected = if protocol == Http2 {
            // The client never sends its preface, so only the grace ends the connection.
            secs(30)
        } else {
            secs(3)
        };
        assert_eq!(start.elapsed(), expected, "{protocol:?}");
        assert_eq!(answer.await.unwrap().unwrap(), 20);
        let ends = [idle_end, busy_end, silent_end].map(|end| async { end.await.unwrap() });
        let [idle_end, busy_end, silent_end] = ends;
        assert_eq!(idle_end.await, quiet(Reason::Shutdown, secs(2)));
        assert_eq!(busy_end.await, quiet(Reason::Shutdown, secs(5)));
        let mut of_silent = quiet(Reason::Shutdown, secs(2));
        match protocol {
            Http2 => of_silent = cut(Reason::Shutdown, 0, secs(32)),
            Auto1 | Auto1Upgrades => of_silent.is_ok = false,
            _ => {}
        }
        assert_eq!(silent_end.await, of_silent, "{protocol:?}");

        let counts = server.connections.counts();
        assert_eq!((counts.open(), counts.shutdown()), (0, 3));
        assert_eq!(server.connections.open().unwrap_err(), OpenError::Shutdown);
    });
}

#[test]
fn what_is_still_in_flight_after_the_grace_is_cut() {
    each(async |protocol| {
        let server = Server::new(protocol, Limits::new().grace(secs(4)));
        let (mut client, end) = server.client().await;
        let answer = tokio::spawn(async move { client.get("/after/10000").await });
        settle().await;
        let start = Instant::now();
        server.connections.shutdown().await;
        assert_eq!(start.elapsed(), secs(4));
        assert!(answer.await.unwrap().is_err());
        assert_eq!(
            end.await.unwrap(),
            cut(Reason::Shutdown, 1, secs(4)),
            "{protocol:?}"
        );
    });
}

/// The shutdown does not extend a grace that has begun.
#[test]
fn a_grace_that_runs_goes_on() {
    each(async |protocol| {
        let limits = Limits::new().max_age(secs(10)).jitter(0.0).grace(secs(10));
        let server = Server::new(protocol, limits);
        let (mut client, end) = server.client().await;
        let answer = tokio::spawn(async move { client.get("/after/30000").await });
        sleep(secs(15)).await;
        server.connections.shutdown().await;
        assert!(answer.await.unwrap().is_err());
        assert_eq!(
            end.await.unwrap(),
            cut(Reason::MaxAge, 1, secs(20)),
            "{protocol:?}"
        );
    });
}

#[test]
fn it_goes_on_when_its_future_is_dropped() {
    each(async |protocol| {
        let server = Server::new(protocol, Limits::new());
        let (mut client, end) = server.client().await;
        let answer = tokio::spawn(async move { client.get("/after/5000").await });
        settle().await;
        let unpolled = server.connections.shutdown();
        drop(unpolled);
        assert!(
            server.connections.open().is_ok(),
            "the shutdown must not have begun"
        );
        let mut shutdown = Box::pin(server.connections.shutdown());
        assert!(poll_once(&mut shutdown).await.is_pending());
        drop(shutdown);
        assert!(server.connections.open().is_err());
        assert_eq!(
            end.await.unwrap(),
            quiet(Reason::Shutdown, secs(5)),
            "{protocol:?}"
        );
        assert!(answer.await.unwrap().is_ok());
        let connections = &server.connections;
        tokio::join!(connections.shutdown(), connections.shutdown());
        connections.shutdown().await;
    });
}

/// A connection is opened before the shutdown and driven after it began.
#[test]
fn a_connection_that_is_driven_later_ends_at_once() {
    each(async |protocol| {
        let server = Server::new(protocol, Limits::new());
        let lifetime = server.connections.open().unwrap();
        let mut shutdown = Box::pin(server.connections.shutdown());
        assert!(poll_once(&mut shutdown).await.is_pending());
        let (client, io) = tokio::io::duplex(1_024);
        let end = tokio::spawn(crate::server::serve(protocol, lifetime, io));
        shutdown.await;
        assert_eq!(end.await.unwrap().reason, Reason::Shutdown);
        drop(client);
    });
}

/// Shuts down 10,000 connections that have all limits. Half of them have sent a request.
#[test]
fn many_connections_end() {
    const MANY: usize = 10_000;
    for protocol in [Http1, Http2] {
        does_not_hang(move || {
            multi_thread(2).block_on(async move {
                let limits = Limits::new()
                    .idle(secs(3_600))
                    .max_age(secs(7_200))
                    .grace(secs(600));
                let server = Server::new(protocol, limits);
                let clients: Vec<_> = (0..MANY)
                    .map(|number| {
                        let server = server.clone();
                        tokio::spawn(async move {
                            let (mut client, server_end) = {
                                let (client, io) = tokio::io::duplex(1_024);
                                let end = server.serve(io);
                                (crate::server::Client::new(protocol, client).await, end)
                            };
                            if number % 2 == 0 {
                                assert_eq!(client.get("/after/0").await.unwrap(), 4);
                            }
                            (client, server_end)
                        })
                    })
                    .collect();
                let mut ends = Vec::new();
                for client in clients {
                    ends.push(client.await.unwrap());
                }
                assert_eq!(server.connections.counts().open(), MANY as u64);
                server.connections.shutdown().await;
                for (client, end) in ends {
                    assert_eq!(end.await.unwrap().reason, Reason::Shutdown);
                    drop(client);
                }
                let counts = server.connections.counts();
                assert_eq!((counts.open(), counts.shutdown()), (0, MANY as u64));
                assert_eq!(counts.cut(), 0);
            });
        });
    }
}

/// A connection that is opened while the shutdown begins ends too.
#[test]
fn no_connection_escapes() {
    does_not_hang(|| {
        multi_thread(2).block_on(async {
            for _ in 0..50 {
                let server = Server::new(Http1, Limits::new().grace(secs(600)));
                let opener = server.clone();
                let opened = tokio::spawn(async move {
                    let mut opened = Vec::new();
                    for _ in 0..50 {
                        let Ok(lifetime) = opener.connections.open() else {
                            break;
                        };
                        let (mut client, io) = tokio::io::duplex(1_024);
                        client
                            .write_all(b"GET /after/0 HTTP/1.1\r\n\r\n")
                            .await
                            .unwrap();
                        let end = tokio::spawn(crate::server::serve(Http1, lifetime, io));
                        opened.push((client, end));
                        tokio::task::yield_now().await;
                    }
                    opened
                });
                tokio::task::yield_now().await;
                server.connections.shutdown().await;
                for (_client, end) in opened.await.unwrap() {
                    let end = end.await.unwrap();
                    assert!(!end.is_cut && end.age < secs(590), "{end:?}");
                }
            }
        });
    });
}

/// With `pipeline_flush`, hyper 1.12 discards a response in its buffer if it has read a part of the next request. If
/// this test fails, hyper may have been repaired. Then change `docs/limitations.md`.
#[test]
fn hyper_discards_responses_with_pipeline_flush() {
    for (is_enabled, expected) in [(false, "HTTP/1.1 200"), (true, "")] {
        let answer = paused().block_on(async {
            let connections = Connections::new(Limits::new());
            let lifetime = connections.open().unwrap();
            let service = lifetime.service(service_fn(async |_| {
                sleep(secs(10)).await;
                Ok::<_, std::convert::Infallible>(Response::new("hello".to_owned()))
            }));
            let (mut client, io) = tokio::io::duplex(1_024);
            let connection = http1::Builder::new()
                .pipeline_flush(is_enabled)
                .serve_connection(TokioIo::new(io), service);
            let end = tokio::spawn(lifetime.drive(connection));
            let requests = b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n";
            client.write_all(requests).await.unwrap();
            sleep(secs(5)).await;
            connections.shutdown().await;
            let end = end.await.unwrap();
            assert_eq!((end.is_cut(), end.lost()), (false, 0));
            assert!(end.into_result().is_ok());
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer.get(..12).unwrap_or_default().to_owned()
        });
        assert_eq!(answer, expected, "pipeline_flush({is_enabled})");
    }
}

//! Tests with the real clock over loopback: a limit is never early, and it ends the connection at some time.
//!
//! The upper bounds are wide, because the machine may be busy.

use std::{future::Future, time::Duration};

use http_body_util::BodyExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_wheel::Instant;
use tokio_wheel_util::hyper::{Limits, Reason};

use crate::{
    server::{ALL, Client, Server},
    support::{ms, multi_thread, secs},
};

/// Fails if the future takes longer than 10 minutes, so that the test does not hang.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    let end = tokio::time::timeout(secs(600), future).await;
    end.expect("the test must end within 10 minutes")
}

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, server) = tokio::join!(client, listener.accept());
    (client.unwrap(), server.unwrap().0)
}

/// Tests each limit alone, then all of them. The limits are long, because a request may be late on a busy machine.
#[test]
fn limits_end_connections_and_are_not_early() {
    let (idle, age, grace) = (secs(2), secs(3), ms(500));
    let aged = Limits::new().max_age(age).jitter(0.0);
    let alone: [(Limits, &str, Reason, bool, Duration); 4] = [
        (
            Limits::new().idle(idle),
            "/after/200",
            Reason::Idle,
            false,
            ms(200) + idle,
        ),
        (aged.clone(), "/after/10", Reason::MaxAge, false, age),
        (
            aged.clone().grace(grace),
            "/after/3600000",
            Reason::MaxAge,
            true,
            age + grace,
        ),
        (
            aged.idle(idle).grace(grace),
            "/frames/1000000/10",
            Reason::MaxAge,
            true,
            age + grace,
        ),
    ];
    multi_thread(2).block_on(in_time(async move {
        let mut ends = Vec::new();
        for protocol in ALL {
            for (limits, path, reason, is_cut, least) in alone.clone() {
                ends.push(tokio::spawn(async move {
                    let server = Server::new(protocol, limits);
                    let (client, io) = connected().await;
                    let start = Instant::now();
                    let end = server.serve(io);
                    let mut client = Client::new(protocol, client).await;
                    assert_eq!(client.get(path).await.is_err(), is_cut);
                    let end = end.await.unwrap();
                    let context = format!("{protocol:?} {path} {end:?}");
                    assert_eq!((end.reason, end.is_cut), (reason, is_cut), "{context}");
                    assert!(start.elapsed() >= least, "{context}");
                }));
            }
        }
        for end in ends {
            end.await.unwrap();
        }
    }));
}

#[test]
fn a_shutdown_waits_for_what_is_in_flight() {
    multi_thread(2).block_on(in_time(async {
        for protocol in ALL {
            let limits = Limits::new().idle(secs(600)).grace(secs(600));
            let server = Server::new(protocol, limits);
            let mut clients = Vec::new();
            for _ in 0..20 {
                let (client, io) = connected().await;
                server.serve(io);
                let mut client = Client::new(protocol, client).await;
                let answer = client.ask("/frames/10/20").await.unwrap();
                clients.push(tokio::spawn(async move {
                    let body = answer.into_body().collect().await;
                    drop(client);
                    body.unwrap().to_bytes().len()
                }));
            }
            server.connections.shutdown().await;
            for client in clients {
                assert_eq!(client.await.unwrap(), 40, "{protocol:?}");
            }
            assert_eq!(server.connections.counts().cut(), 0);
        }
    }));
}

#[test]
fn pressure_ends_what_is_idle() {
    multi_thread(2).block_on(in_time(async {
        for protocol in ALL {
            let limits = Limits::new().idle(secs(3_600)).min_idle(ms(100));
            let server = Server::new(protocol, limits);
            let (client, io) = connected().await;
            let end = server.serve(io);
            let mut client = Client::new(protocol, client).await;
            client.get("/after/0").await.unwrap();
            let idle_since = Instant::now();
            server.connections.set_pressure(1.0);
            let end = end.await.unwrap();
            assert_eq!(end.reason, Reason::Idle, "{protocol:?}");
            // The server may see the end of the connection before the client sees it.
            assert!(end.age >= ms(100));
            assert!(idle_since.elapsed() < secs(600));
        }
    }));
}

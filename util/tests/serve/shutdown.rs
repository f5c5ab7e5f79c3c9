//! Tests the shutdown of a server, and what is left when its future is dropped.

use super::*;

/// A handshake, a client that waits for room and the pause after an error end at once.
#[test]
fn nothing_else_delays_the_shutdown() {
    paused().block_on(async {
        let connections = Connections::new(Limits::new().max_connections(1));
        let server = Server::with(&connections, |server| {
            server.handshake(secs(1_000), |io, app| async move {
                pending::<()>().await;
                Ok((io, app))
            })
        });
        let (mut shaking, mut waiting) = (server.connect(), server.connect());
        settle().await;
        let start = Instant::now();
        assert_eq!(server.shutdown().await, (0, secs(0)));
        assert_eq!(closed(&mut shaking, start).await, secs(0));
        assert_eq!(closed(&mut waiting, start).await, secs(0));

        let server = Server::new(Limits::new());
        let error = io::ErrorKind::Other.into();
        server.accept.send(Err(error)).unwrap();
        settle().await;
        assert_eq!(server.errors().len(), 1);
        assert_eq!(server.shutdown().await, (0, secs(0)));
    });
}

/// No task is left after a shutdown, also if it had to cut connections with several requests.
#[test]
fn no_task_is_left() {
    each(async |protocol| {
        // Starts the timer of the runtime, which has a task.
        sleep(ms(1)).await;
        for is_dropped in [false, true] {
            let before = Handle::current().metrics().num_alive_tasks();
            let server = Server::new(Limits::new().grace(secs(1)));
            let (mut client, slow) = (server.client(protocol).await, server.client(protocol).await);
            assert_eq!(client.get("/none").await.unwrap(), 0);
            let asked = match slow {
                Client::One(_) => vec![slow],
                Client::Two(_) => vec![slow.another(), slow.another(), slow],
            };
            let ask = |mut client: Client| {
                tokio::spawn(async move { client.get("/after/1000000").await })
            };
            let asked: Vec<_> = asked.into_iter().map(ask).collect();
            let (mut half, silent) = (server.connect(), server.connect());
            half.write_all(b"GET / HT").await.unwrap();
            settle().await;
            let connections = server.connections.clone();
            assert_eq!(connections.counts().open(), 4);
            if is_dropped {
                server.running.abort();
                assert!(server.running.await.is_err());
                assert_eq!(connections.counts().dropped(), 4);
            } else {
                let accept = server.accept.clone();
                let shutdown = tokio::spawn(server.shutdown());
                sleep(ms(1)).await;
                assert!(accept.is_closed(), "new clients are refused meanwhile");
                let (cut, took) = shutdown.await.unwrap();
                assert!((1..=3).contains(&cut) && took == secs(1), "{cut} {took:?}");
            }
            assert_eq!(connections.counts().open(), 0);
            assert_eq!(half.read(&mut [0]).await.unwrap_or(0), 0);
            for asked in asked {
                assert!(asked.await.unwrap().is_err());
            }
            drop((client, half, silent));
            settle().await;
            assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
        }
    });
}

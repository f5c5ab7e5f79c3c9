//! Tests the counts of requests in flight and of connections, for every way in which they end.

use super::*;

/// A request ends when its service panics or fails. An HTTP/1 connection ends then too.
#[test]
fn a_service_that_panics_ends_its_request() {
    each(async |protocol| {
        for path in ["/panic", "/fail"] {
            let server = Server::new(protocol, Limits::new().idle(secs(10)));
            let (mut client, end) = server.client().await;
            assert!(client.get(path).await.is_err());
            if protocol.is_http2() {
                sleep(secs(4)).await;
                let _ = client.get("/after/1000").await;
                assert_eq!(end.await.unwrap(), quiet(Reason::Idle, secs(15)));
            } else if path == "/panic" {
                assert!(end.await.unwrap_err().is_panic());
                let counts = server.connections.counts();
                assert_eq!((counts.open(), counts.dropped()), (0, 1));
            } else {
                assert_eq!(end.await.unwrap().reason, Reason::Closed);
            }
            server.connections.shutdown().await;
        }
    });
}

#[test]
fn each_end_counts_once() {
    use Reason::*;

    each(async |protocol| {
        let limits = Limits::new().idle(secs(10)).max_age(secs(25)).jitter(0.0);
        let server = Server::new(protocol, limits.grace(secs(5)));
        let counts = || {
            let counts = server.connections.counts();
            let ended = [Closed, Idle, MaxAge, Shutdown].map(|reason| counts.ended(reason));
            (counts.open(), ended, counts.dropped(), counts.cut())
        };
        let (client, end) = server.client().await;
        assert_eq!(counts(), (1, [0, 0, 0, 0], 0, 0));
        settle().await;
        drop(client);
        assert_eq!(end.await.unwrap().reason, Reason::Closed);
        assert_eq!(counts(), (0, [1, 0, 0, 0], 0, 0));

        let (_client, end) = server.client().await;
        end.await.unwrap();
        assert_eq!(counts(), (0, [1, 1, 0, 0], 0, 0));

        let (mut client, end) = server.client().await;
        assert!(client.get("/after/60000").await.is_err());
        assert_eq!(end.await.unwrap().age, secs(30));
        assert_eq!(counts(), (0, [1, 1, 1, 0], 0, 1));

        let (_client, end) = server.client().await;
        settle().await;
        end.abort();
        assert!(end.await.unwrap_err().is_cancelled());
        drop(server.connections.open());
        assert_eq!(counts(), (0, [1, 1, 1, 0], 2, 1));

        let (mut client, end) = server.client().await;
        client.get("/after/0").await.unwrap();
        server.connections.shutdown().await;
        end.await.unwrap();
        assert_eq!(counts(), (0, [1, 1, 1, 1], 2, 1));
    });
}

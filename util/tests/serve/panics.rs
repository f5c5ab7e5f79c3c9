//! Tests user code that panics or fails.

use super::*;

#[test]
fn a_service_that_fails_is_reported() {
    each(async |protocol| {
        let server = Server::new(Limits::new());
        let mut client = server.client(protocol).await;
        assert!(client.get("/fail").await.is_err());
        if protocol.is_http1() {
            let errors = server.errors();
            let expected = "a connection failed: error from user's Service";
            assert!(errors[0].starts_with(expected), "{errors:?}");
        }
        let mut next = server.client(protocol).await;
        assert_eq!(next.get("/none").await.unwrap(), 0);
    });
}

/// The closure of a handshake panics for the first client, and its future panics for the second.
#[test]
fn a_handshake_that_panics_ends_its_connection_alone() {
    paused().block_on(async {
        let start = Instant::now();
        let count = Arc::<AtomicUsize>::default();
        let server = Server::with(&Connections::new(Limits::new()), |server| {
            server.handshake(secs(10), move |io, app| {
                let number = count.fetch_add(1, Relaxed);
                assert!(number != 0, "the test's own handshake panics");
                async move {
                    assert!(number != 1, "the test's own handshake panics later");
                    Ok((io, app))
                }
            })
        });
        for _ in 0..2 {
            assert_eq!(closed(&mut server.connect(), start).await, secs(0));
        }
        let mut client = server.connect();
        let request = b"GET /none HTTP/1.1\r\nconnection: close\r\n\r\n";
        client.write_all(request).await.unwrap();
        closed(&mut client, start).await;
        assert_eq!(server.connections.counts().dropped(), 2);
        assert_eq!(server.shutdown().await, (0, secs(0)));
    });
}

/// Otherwise each connection would panic alone, and the server would serve nobody.
#[test]
fn a_server_without_time_panics_at_once() {
    let poll = || {
        let server = serve(Memory(mpsc::unbounded_channel().1), app());
        let _ = tokio_test::task::spawn(server.into_future()).poll();
    };
    panic_of(poll);
    let runtime = Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    panic_of(poll);
}

//! Tests each limit of a server.

use super::*;

#[test]
fn a_client_without_a_request_reaches_the_header_timeout() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for (bytes, dribbles) in [
        (&b""[..], false),
        (b"GET / HTTP/1.1\r\nslow: xxxxxxxxxxxx", true),
        (&PREFACE[..10], false),
        (PREFACE, false),
        (PREFACE, true),
    ] {
        paused().block_on(async {
            let start = Instant::now();
            let server = Server::with(&Connections::new(Limits::new()), |server| {
                server.header_timeout(secs(5))
            });
            let client = server.connect();
            let (mut reader, mut writer) = tokio::io::split(client);
            let write = tokio::spawn(async move {
                for part in bytes.chunks(if dribbles { 1 } else { 100 }) {
                    let _ = writer.write_all(part).await;
                    sleep(secs(1)).await;
                }
                pending::<()>().await;
            });
            let _ = reader.read_to_end(&mut Vec::new()).await;
            assert_eq!(start.elapsed(), secs(5), "{bytes:?}");
            assert_eq!(server.connections.counts().dropped(), 1);
            let expected = ["a connection failed: deadline has elapsed"];
            assert_eq!(server.errors(), expected);
            write.abort();
        });
    }
}

/// The default is 30 s, and may be changed to no limit. After its first head, a connection may stay open.
#[test]
fn the_header_timeout_ends_with_the_first_head() {
    each(async |protocol| {
        let start = Instant::now();
        let server = Server::new(Limits::new());
        let endless = Server::with(&Connections::new(Limits::new()), |server| {
            server.header_timeout(Duration::MAX)
        });
        let (mut silent, mut late) = (server.connect(), endless.connect());
        let (mut busy, mut quiet) = (server.client(protocol).await, server.client(protocol).await);
        assert_eq!(quiet.get("/after/0").await.unwrap(), 4);
        let (closed, length) = tokio::join!(closed(&mut silent, start), busy.get("/after/100000"));
        assert_eq!((closed, length.unwrap()), (secs(30), 4));
        assert_eq!(quiet.get("/after/0").await.unwrap(), 4);
        send(&mut late, "/none").await;
        assert!(late.read(&mut [0; 100]).await.unwrap() > 0);
        assert_eq!(server.errors().len(), 1);
    });
}

/// A server needs no handle for its limits, and cannot have both.
#[test]
fn a_server_takes_limits_or_connections() {
    let server = || serve(Memory(mpsc::unbounded_channel().1), app());
    let (limits, connections) = (
        Limits::new().idle(secs(60)),
        Connections::new(Limits::new()),
    );
    let both = "a server takes either `limits` or `connections`, once";
    let with = |server: Serve<_, _, _>| server.connections(&connections);
    assert_panics(|| with(server()).limits(limits.clone()), &[both]);
    assert_panics(|| with(server().limits(limits.clone())), &[both]);
    assert_panics(
        || server().limits(limits.clone()).limits(Limits::new()),
        &[both],
    );
    assert_panics(|| with(with(server())), &[both]);
    paused().block_on(async {
        let start = Instant::now();
        let (accept, accepted) = mpsc::unbounded_channel();
        let (mut client, io) = duplex(1_024);
        accept.send(Ok(io)).unwrap();
        let server = serve(Memory(accepted), app()).limits(limits);
        let server = tokio::spawn(server.into_future());
        send(&mut client, "/none").await;
        assert_eq!(closed(&mut client, start).await, secs(60));
        server.abort();
    });
}

/// A handshake that never ends, that fails, and that takes its time.
#[test]
fn a_handshake_has_a_limit() {
    paused().block_on(async {
        let start = Instant::now();
        let server = Server::with(&Connections::new(Limits::new()), |server| {
            server.handshake(secs(10), |mut io: DuplexStream, app| async move {
                match io.read_u8().await? {
                    b'!' => Err(io::Error::other("wrong key")),
                    _ => Ok((tokio::io::BufReader::new(io), app)),
                }
            })
        });
        let (mut silent, mut wrong, mut right) =
            (server.connect(), server.connect(), server.connect());
        wrong.write_all(b"!").await.unwrap();
        assert_eq!(closed(&mut wrong, start).await, secs(0));
        sleep(secs(9)).await;
        // The header timeout begins after the handshake.
        let head = b"?GET /after/0 HTTP/1.1\r\n";
        right.write_all(head).await.unwrap();
        assert_eq!(closed(&mut silent, start).await, secs(10));
        sleep(secs(28)).await;
        right.write_all(b"\r\n").await.unwrap();
        let mut answer = [0; 12];
        right.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        let expected = ["wrong key", "timed out"].map(|end| format!("a handshake failed: {end}"));
        assert_eq!(server.errors(), expected);
    });
}

/// With a full server, clients wait until a connection ends. None is refused.
#[test]
fn clients_wait_for_room() {
    each(async |protocol| {
        let start = Instant::now();
        let server = Server::new(Limits::new().max_connections(2));
        let ask = |millis: u64| {
            let io = server.connect();
            tokio::spawn(async move {
                let mut client = Client::new(protocol, io).await;
                let path = format!("/after/{millis}");
                (client.get(&path).await.unwrap(), start.elapsed())
            })
        };
        let clients = [ask(1_000), ask(3_000), ask(1_000), ask(1_000)];
        settle().await;
        assert_eq!(server.connections.counts().open(), 2);
        let mut ends = Vec::new();
        for client in clients {
            let (length, end) = client.await.unwrap();
            assert_eq!(length, 4);
            assert!(server.connections.counts().open() <= 2);
            ends.push(end);
        }
        // The server fills the room at once.
        assert_eq!(ends, [1, 3, 2, 3].map(secs));
        assert_eq!(server.shutdown().await.0, 0);
    });
}

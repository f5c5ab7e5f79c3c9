//! Tests each limit of a server.

use super::*;

/// The connection is cut at once. Only HTTP/2 has a graceful shutdown, which this client does not answer.
#[test]
fn a_client_without_a_request_reaches_the_header_timeout() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for (bytes, dribbles, end, cut) in [
        (&b""[..], false, 5, 0),
        (b"GET / HTTP/1.1\r\nslow: xxxxxxxxxxxx", false, 5, 1),
        (b"GET / HTTP/1.1\r\nslow: xxxxxxxxxxxx", true, 5, 1),
        (&PREFACE[..10], false, 5, 0),
        (PREFACE, false, 7, 1),
        (PREFACE, true, 5, 0),
    ] {
        paused().block_on(async {
            let start = Instant::now();
            let connections = Connections::new(Limits::new().grace(secs(2)));
            let server = Server::with(&connections, |server| server.header_timeout(secs(5)));
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
            assert_eq!(start.elapsed(), secs(end), "{bytes:?}");
            let counts = connections.counts();
            assert_eq!(
                (counts.ended(Reason::Header), counts.cut()),
                (1, cut),
                "{bytes:?}"
            );
            assert_eq!(server.errors(), [""; 0]);
            write.abort();
        });
    }
}

/// A client of HTTP/2 that connects ahead gets a GOAWAY frame, and its connection ends without an error.
#[test]
fn a_client_that_connects_ahead_of_its_first_request_is_told() {
    paused().block_on(async {
        let server = Server::with(&Connections::new(Limits::new()), |server| {
            server.header_timeout(secs(5))
        });
        let connect = async || {
            let io = hyper_util::rt::TokioIo::new(server.connect());
            let executor = hyper_util::rt::TokioExecutor::new();
            let connected = hyper::client::conn::http2::handshake(executor, io).await;
            let (client, connection) = connected.unwrap();
            (Client::Two(client), tokio::spawn(connection))
        };
        let ((mut late, ended), (mut in_time, lasts)) = (connect().await, connect().await);
        sleep(secs(4)).await;
        assert_eq!(in_time.get("/after/3000").await.unwrap(), 4);
        sleep(secs(3)).await;
        assert!(ended.is_finished());
        ended.await.unwrap().unwrap();
        let error = late.get("/none").await.unwrap_err();
        assert!(error.is_closed() || error.is_canceled(), "{error:?}");
        assert_eq!(in_time.get("/none").await.unwrap(), 0);
        let counts = server.connections.counts();
        assert_eq!((counts.ended(Reason::Header), counts.cut()), (1, 0));
        lasts.abort();
    });
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
        let counts = server.connections.counts();
        assert_eq!(counts.ended(Reason::Header), 1);
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

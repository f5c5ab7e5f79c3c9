//! Tests that a request is in flight until the connection has written its response, with each kind of body.

use super::*;

pub(super) fn limits() -> Limits {
    Limits::new()
        .idle(secs(10))
        .max_age(secs(200))
        .jitter(0.0)
        .grace(secs(5))
}

/// An I/O without vectored writes. hyper's HTTP/1 then copies each frame into its own buffer.
struct Flat<I> {
    io: I,
    /// Whether a shutdown of the I/O waits for a client that never answers.
    lingers: bool,
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Flat<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingers {
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

fn flat(io: DuplexStream, lingers: bool) -> impl AsyncRead + AsyncWrite + Unpin {
    let (reader, io) = tokio::io::split(io);
    tokio::io::join(reader, Flat { io, lingers })
}

/// Returns whether hyper itself serves the protocol.
fn is_plain(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Http1 | Protocol::Http2)
}

fn each_io(body: impl AsyncFn(Protocol, bool)) {
    each(async |protocol| body(protocol, true).await);
    each_that(is_plain, async |protocol| body(protocol, false).await);
}

/// Opens a connection over a stream of this size for a client that writes bytes by hand.
fn connect(server: &Server, size: usize, is_vectored: bool) -> (DuplexStream, JoinHandle<End>) {
    let (client, io) = duplex(size);
    let end = match is_vectored {
        true => server.serve(io),
        false => server.serve(flat(io, false)),
    };
    (client, end)
}

async fn client(server: &Server, is_vectored: bool) -> (Client, JoinHandle<End>) {
    let (io, end) = connect(server, 65_536, is_vectored);
    (Client::new(server.protocol, io).await, end)
}

/// The maximum age and its grace end such a connection, and the shutdown too. Both count the request as lost.
#[test]
fn an_answer_in_one_frame_is_lost_if_the_client_stops_reading() {
    each_io(async |protocol, is_vectored| {
        for (reason, age) in [(Reason::MaxAge, secs(205)), (Reason::Shutdown, secs(55))] {
            let server = Server::new(protocol, limits());
            let (mut client, end) = client(&server, is_vectored).await;
            let mut body = client.ask("/large").await.unwrap().into_body();
            body.frame().await.unwrap().unwrap();
            sleep(secs(50)).await;
            assert!(!end.is_finished());
            if reason == Reason::Shutdown {
                server.connections.shutdown().await;
            }
            assert_eq!(end.await.unwrap(), cut(reason, 1, age));
            assert!(body.collect().await.is_err());
            let counts = server.connections.counts();
            assert_eq!((counts.ended(reason), counts.cut()), (1, 1));
        }
    });
}

/// The client reads the last byte of each response after the other limits would have ended an idle connection.
#[test]
fn the_last_byte_of_a_short_answer_counts() {
    for is_vectored in [true, false] {
        each_that(Protocol::is_http1, async |protocol| {
            let server = Server::new(protocol, limits());
            // The head of the response does not fit into the stream.
            let (mut client, end) = connect(&server, 16, is_vectored);
            send(&mut client, "/none").await;
            sleep(secs(30)).await;
            assert!(!end.is_finished());
            let mut answer = [0; 2_048];
            let mut length = 0;
            while !answer[..length].ends_with(b"\r\n\r\n") {
                let read = client.read(&mut answer[length..]).await.unwrap();
                assert!(read > 0, "{length}");
                length += read;
            }
            assert_eq!(end.await.unwrap(), quiet(Reason::Idle, secs(40)));
        });
    }
}

/// Only the responses that the client has not read are lost.
#[test]
fn each_stream_counts_its_own_frames() {
    each_that(Protocol::is_http2, async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        let unread = [
            client.ask("/large").await.unwrap(),
            client.another().ask("/frames/9/100000").await.unwrap(),
        ];
        for path in ["/none", "/after/0", "/frames/3/100"] {
            client.another().get(path).await.unwrap();
        }
        let mut reset = client.another().ask("/large").await.unwrap().into_body();
        reset.frame().await.unwrap().unwrap();
        drop(reset);
        assert_eq!(end.await.unwrap(), cut(Reason::MaxAge, 2, secs(205)));
        drop(unread);
    });
}

/// After a PING frame for a stream, which is an error, hyper shuts the I/O down before it calls the service.
#[test]
fn a_shutdown_of_the_io_ends_the_requests() {
    each_that(Protocol::is_http2, async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, io) = duplex(65_536);
        let end = server.serve(flat(io, true));
        let mut frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frames.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
        frames.extend(b"\0\0\x09\x01\x05\0\0\0\x01\x82\x86\x44\x05/none");
        frames.extend([0, 0, 8, 6, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        client.write_all(&frames).await.unwrap();
        assert_eq!(end.await.unwrap(), cut(Reason::Idle, 0, secs(15)));
    });
}

/// A client that reads slowly and never stops gets everything. The endless response of another stream hides no end.
#[test]
fn a_stream_ends_though_another_one_never_pauses() {
    each_that(Protocol::is_http2, async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        let mut endless = client.another().ask("/endless").await.unwrap().into_body();
        let reading = tokio::spawn(async move {
            while let Some(Ok(_)) = endless.frame().await {
                sleep(ms(200)).await;
            }
        });
        for path in ["/none", "/after/0", "/large", "/frames/3/100"] {
            client.get(path).await.unwrap();
        }
        assert_eq!(end.await.unwrap(), cut(Reason::MaxAge, 1, secs(205)));
        reading.await.unwrap();
    });
}

/// After each kind of response, the connection is idle from the instant at which the client has read it.
#[test]
fn each_kind_of_body_ends_its_request() {
    each_that(is_plain, async |protocol| {
        for (method, kind) in [
            (Method::GET, "empty"),
            (Method::GET, "short"),
            (Method::GET, "full"),
            (Method::GET, "empty-frames"),
            (Method::GET, "chunked"),
            (Method::GET, "late"),
            (Method::GET, "trailers"),
            (Method::GET, "error"),
            (Method::HEAD, "empty"),
            (Method::HEAD, "full"),
            (Method::HEAD, "chunked"),
        ] {
            // With HTTP/2, hyper leaves it to the service to send no body.
            if protocol.is_http2() && method == Method::HEAD && kind != "empty" {
                continue;
            }
            let server = Server::new(protocol, limits());
            let (io, end) = connect(&server, 1_024, true);
            let mut client = Client::new(protocol, io).await;
            sleep(secs(5)).await;
            let no_body = axum::body::Body::empty();
            let path = format!("/body/{kind}");
            let answer = client.ask_with(method.clone(), &path, no_body).await;
            // The response waits in the buffers.
            sleep(secs(20)).await;
            let is_read = match answer {
                Ok(answer) => answer.into_body().collect().await.is_ok(),
                Err(_) => false,
            };
            assert_eq!(is_read, kind != "error", "{method} {kind}");
            let is_short = ["short", "late", "empty", "empty-frames"].contains(&kind);
            let is_short = is_short || method == Method::HEAD;
            let expected = match kind {
                "error" if protocol.is_http1() => (Reason::Closed, 0, secs(5)),
                "late" if protocol.is_http2() => (Reason::Idle, 0, secs(16)),
                _ if is_short || kind == "error" => (Reason::Idle, 0, secs(15)),
                _ => (Reason::Idle, 0, secs(35)),
            };
            let end = end.await.unwrap();
            let found = (end.reason, end.lost, end.age);
            assert_eq!(found, expected, "{method} {kind}");
        }
    });
}

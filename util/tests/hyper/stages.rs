//! Tests clients that are slow in each stage of a connection, and which limit ends it.

use super::{counted_io::limits, *};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// Sends a byte every second until the server closes the connection.
async fn dribble(client: &mut (impl AsyncWrite + Unpin), bytes: impl IntoIterator<Item = u8>) {
    for byte in bytes {
        if client.write_all(&[byte]).await.is_err() {
            return;
        }
        sleep(secs(1)).await;
    }
}

fn endless_head() -> impl Iterator<Item = u8> {
    b"GET /after/0 HTTP/1.1\r\nslow: "
        .iter()
        .copied()
        .chain(std::iter::repeat(b'x'))
}

async fn end_of(protocol: Protocol, act: impl AsyncFnOnce(&mut DuplexStream)) -> End {
    let server = Server::new(protocol, limits());
    let (mut client, end) = server.connect();
    act(&mut client).await;
    end.await.unwrap()
}

#[test]
fn a_client_that_says_nothing() {
    each(async |protocol| {
        let mut expected = quiet(Reason::Idle, secs(10));
        match protocol {
            Http2 => expected = cut(Reason::Idle, 0, secs(15)),
            // The client has sent nothing, so `auto` does not know the protocol.
            Auto1 | Auto1Upgrades => expected.is_ok = false,
            _ => {}
        }
        assert_eq!(end_of(protocol, async |_| {}).await, expected);
    });
}

/// The grace also covers the first head. If the head is complete within the grace, hyper serves the request.
#[test]
fn a_first_head_that_never_ends() {
    each_that(Protocol::is_http1, async |protocol| {
        let end = end_of(protocol, async |client| {
            dribble(client, endless_head()).await
        })
        .await;
        assert_eq!(end, cut(Reason::Idle, 0, secs(15)));
        let end = end_of(protocol, async |client| {
            let head = b"GET /after/1000 HTTP/1.1\r\n";
            client.write_all(head).await.unwrap();
            sleep(secs(13)).await;
            client.write_all(b"\r\n").await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.contains("connection: close"), "{answer}");
        });
        assert_eq!(end.await, quiet(Reason::Idle, secs(14)));
    });
}

#[test]
fn a_later_head_that_never_ends() {
    each_that(Protocol::is_http1, async |protocol| {
        let end = end_of(protocol, async |client| {
            send(client, "/after/2000").await;
            assert!(client.read(&mut [0; 1_024]).await.unwrap() > 0);
            dribble(client, endless_head()).await;
        });
        assert_eq!(end.await, quiet(Reason::Idle, secs(12)));
    });
}

/// The client never answers the ping of the graceful shutdown. `auto` cannot recognize the protocol by half a preface.
#[test]
fn a_client_of_http2_that_sends_no_frame() {
    each_that(Protocol::is_http2, async |protocol| {
        let whole = async |client: &mut DuplexStream| {
            client.write_all(PREFACE).await.unwrap();
            client.write_all(EMPTY_SETTINGS).await.unwrap();
        };
        let is_cut = cut(Reason::Idle, 0, secs(15));
        assert_eq!(end_of(protocol, whole).await, is_cut);
        let half = async |client: &mut DuplexStream| {
            dribble(client, PREFACE[..20].iter().copied()).await;
        };
        let expected = match protocol {
            Http2 => is_cut,
            _ => quiet(Reason::Idle, secs(10)),
        };
        assert_eq!(end_of(protocol, half).await, expected);
    });
}

/// A request is in flight from the end of its head. So only the maximum age limits its body.
#[test]
fn a_body_that_never_ends() {
    each_that(Protocol::is_http1, async |protocol| {
        let end = end_of(protocol, async |client| {
            let head = b"POST /upload HTTP/1.1\r\ncontent-length: 10000\r\n\r\n";
            client.write_all(head).await.unwrap();
            dribble(client, std::iter::repeat(b'x')).await;
        });
        assert_eq!(end.await, cut(Reason::MaxAge, 1, secs(205)));
    });
}

/// The handler has responded, and another task reads the body. The request is no longer in flight.
#[test]
fn a_body_that_goes_on_after_its_answer() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.connect();
        if protocol.is_http1() {
            let head = b"POST /early HTTP/1.1\r\ncontent-length: 10000\r\n\r\n";
            client.write_all(head).await.unwrap();
            dribble(&mut client, std::iter::repeat(b'x')).await;
        } else {
            let mut client = Client::new(protocol, client).await;
            let body = axum::body::Body::new(Frames::new(10_000, 4, secs(1)));
            let answer = client.ask_with(Method::POST, "/early", body).await;
            assert_eq!(answer.unwrap().status(), 200);
            assert!(!end.is_finished());
        }
        assert_eq!(end.await.unwrap(), cut(Reason::Idle, 0, secs(15)));
    });
}

/// A client announces its last request. It gets the whole response, although hyper has closed its side by then.
#[test]
fn the_rest_of_a_last_answer_is_in_flight() {
    each_that(Protocol::is_http1, async |protocol| {
        for (version, head) in [("1.1", "connection: close\r\n"), ("1.0", "")] {
            let server = Server::new(protocol, limits());
            let (mut client, end) = server.connect();
            let request = format!("GET /large HTTP/{version}\r\n{head}\r\n");
            client.write_all(request.as_bytes()).await.unwrap();
            sleep(secs(50)).await;
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            assert!(answer.len() > 8 << 20, "{version}");
            assert!(!end.await.unwrap().is_cut);
        }
    });
}

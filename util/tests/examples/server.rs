//! Runs the example `axum_server`, with clients that are slow, silent or endless.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use tokio_wheel::Instant;
use tokio_wheel_util::hyper::Reason;

#[expect(dead_code, reason = "`main`")]
#[path = "../../examples/axum_server.rs"]
mod axum_server;

/// Each client exceeds its own limit. The sockets and the clock are real, so the limits are long.
#[tokio::test]
async fn every_limit_ends_its_client() {
    let [request, body, head, idle, age, grace] =
        [2_800, 1_800, 1_200, 1_500, 6_000, 500].map(Duration::from_millis);
    let settings = axum_server::Settings {
        request,
        body,
        head,
        idle,
        age,
        grace,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum_server::run(listener, settings, async { drop(stopped.await) });
    let server = tokio::spawn(server);
    let connect = async || Client {
        socket: TcpStream::connect(address).await.unwrap(),
        start: Instant::now(),
        answers: Vec::new(),
    };
    let dribbles = async |head, pause, answers: &[u16], limit| {
        let mut client = connect().await;
        client.dribble(head, pause).await;
        client.has_got(answers, limit);
    };
    // The client then waits for the end of its connection.
    let asks = async |paths: &[&str], answers: &[u16], limit| {
        let mut client = connect().await;
        for path in paths {
            client.ask(path).await;
        }
        client.hear().await;
        client.has_got(answers, limit);
    };
    let pause = body / 16;
    tokio::join!(
        dribbles(
            "POST /upload HTTP/1.1\r\nhost: test\r\ncontent-length: 100000\r\n\r\n",
            pause,
            &[400],
            body,
        ),
        dribbles(
            "GET / HTTP/1.1\r\nhost: test\r\nendless: ",
            pause,
            &[],
            head
        ),
        asks(&["/slow", "/"], &[504, 200], request + idle),
        asks(&["/"], &[200], idle),
        async {
            let mut client = connect().await;
            while client.ask("/").await {
                tokio::time::sleep(idle / 5).await;
            }
            client.answers.dedup();
            // The jitter shortens the age by up to a tenth.
            client.has_got(&[200], age.mul_f64(0.9));
        },
    );
    let mut last = connect().await;
    last.ask("/").await;
    tokio::join!(last.ask("/work"), async {
        // The server has received the request by then.
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(stop);
    });
    last.has_got(&[200, 200], Duration::ZERO);
    let counts = server.await.unwrap().unwrap();
    let cut_or_dropped = (counts.open(), counts.cut(), counts.dropped());
    assert_eq!(cut_or_dropped, (0, 1, 0), "{counts:?}");
    assert_eq!(counts.ended(Reason::Header), 1, "{counts:?}");
    assert!(counts.ended(Reason::Idle) >= 2, "{counts:?}");
    assert_eq!(counts.ended(Reason::MaxAge), 1, "{counts:?}");
    assert!(TcpStream::connect(address).await.is_err());
}

/// A client of HTTP/1. It uses `tokio::time`, so only the server uses tokio-wheel.
struct Client {
    socket: TcpStream,
    start: Instant,
    answers: Vec<u16>,
}

impl Client {
    /// Sends a request. Returns whether there was a response.
    async fn ask(&mut self, path: &str) -> bool {
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
        // If the server has closed the connection, there is no response either.
        let _ = self.socket.write_all(request.as_bytes()).await;
        self.hear().await
    }

    /// Waits for a response or the end of the connection. Returns whether there was a response.
    async fn hear(&mut self) -> bool {
        let answer = status(&mut self.socket).await;
        self.answers.extend(answer);
        answer.is_some()
    }

    /// Sends a byte after each pause, until the server responds or closes the connection.
    async fn dribble(&mut self, head: &str, pause: Duration) {
        let mut next = head;
        while self.socket.write_all(next.as_bytes()).await.is_ok() {
            match tokio::time::timeout(pause, status(&mut self.socket)).await {
                Ok(answer) => return self.answers.extend(answer),
                Err(_) => next = "x",
            }
        }
    }

    #[track_caller]
    fn has_got(self, answers: &[u16], at_least: Duration) {
        let lived = self.start.elapsed();
        assert_eq!(self.answers, answers, "after {lived:?}");
        assert!(
            lived >= at_least,
            "{lived:?}, not {at_least:?}: {answers:?}"
        );
    }
}

/// Reads a response and returns its status. The responses are so short that one read gets all of it.
async fn status(socket: &mut TcpStream) -> Option<u16> {
    let mut answer = [0; 1_024];
    let length = socket.read(&mut answer).await.ok()?;
    let text = std::str::from_utf8(&answer[..length]).ok()?;
    text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

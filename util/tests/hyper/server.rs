//! A server with limits for every protocol, and its clients.

use super::*;

/// The kinds of connections: hyper's own, and hyper-util's `auto` for clients of either protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    Auto1,
    Auto2,
    /// `Auto1` with upgrades.
    Auto1Upgrades,
    Auto2Upgrades,
}

pub(crate) use Protocol::*;

pub(crate) const ALL: [Protocol; 6] = [Http1, Http2, Auto1, Auto2, Auto1Upgrades, Auto2Upgrades];

impl Protocol {
    pub(crate) fn is_http1(self) -> bool {
        matches!(self, Http1 | Auto1 | Auto1Upgrades)
    }

    pub(crate) fn is_http2(self) -> bool {
        !self.is_http1()
    }
}

/// Runs a test once for each protocol. Each run has its own runtime with a paused clock.
#[track_caller]
pub(crate) fn each(body: impl AsyncFn(Protocol)) {
    each_that(|_| true, body);
}

/// Runs a test once for each protocol that `is_meant`. The output of a failed test ends with its protocol.
#[track_caller]
pub(crate) fn each_that(is_meant: impl Fn(Protocol) -> bool, body: impl AsyncFn(Protocol)) {
    for protocol in ALL.into_iter().filter(|protocol| is_meant(*protocol)) {
        println!("{protocol:?}");
        paused().block_on(body(protocol));
    }
}

/// How a connection ended, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) reason: Reason,
    pub(crate) is_cut: bool,
    pub(crate) lost: usize,
    pub(crate) is_ok: bool,
    pub(crate) age: Duration,
}

/// Returns an [`End`] without a lost request. A limit or the shutdown caused it.
pub(crate) fn quiet(reason: Reason, age: Duration) -> End {
    End {
        reason,
        is_cut: false,
        lost: 0,
        is_ok: true,
        age,
    }
}

/// Returns an [`End`] with `lost` lost requests. The end of the grace caused it.
pub(crate) fn cut(reason: Reason, lost: usize, age: Duration) -> End {
    End {
        is_cut: true,
        lost,
        ..quiet(reason, age)
    }
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) protocol: Protocol,
    pub(crate) connections: Connections,
}

impl Server {
    pub(crate) fn new(protocol: Protocol, limits: Limits) -> Self {
        Self {
            protocol,
            connections: Connections::new(limits),
        }
    }

    /// Opens a connection for a client that writes bytes by hand.
    pub(crate) fn connect(&self) -> (DuplexStream, JoinHandle<End>) {
        // This is as large as a socket's buffers.
        let (client, server) = duplex(65_536);
        let end = self.serve(server);
        (client, end)
    }

    pub(crate) async fn client(&self) -> (Client, JoinHandle<End>) {
        let (io, end) = self.connect();
        (Client::new(self.protocol, io).await, end)
    }

    /// Opens a connection that the test polls by hand.
    pub(crate) fn drive(&self) -> (DuplexStream, Pin<Box<impl Future<Output = End> + use<>>>) {
        let (client, server) = duplex(1_024);
        let guard = self.connections.open().expect("the server must have room");
        (client, Box::pin(serve(self.protocol, guard, server)))
    }

    pub(crate) fn serve(
        &self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> JoinHandle<End> {
        let guard = self.connections.open().expect("the server must have room");
        tokio::spawn(serve(self.protocol, guard, io))
    }
}

pub(crate) async fn send(client: &mut DuplexStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
}

pub(crate) async fn serve(
    protocol: Protocol,
    guard: ConnectionGuard,
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> End {
    let opened = Instant::now();
    // After a GOAWAY, hyper's client may close the connection before the server has written its last frames.
    fn end<E>(ended: Ended<E>, protocol: Protocol, opened: Instant) -> End {
        End {
            reason: ended.reason(),
            is_cut: ended.is_cut(),
            lost: ended.lost(),
            is_ok: protocol.is_http2() || ended.error().is_none() && ended.into_result().is_ok(),
            age: opened.elapsed(),
        }
    }

    let io = TokioIo::new(io);
    let service = service_fn(answer);
    // The connections of `auto` borrow this builder.
    let mut auto = auto::Builder::new(TokioExecutor::new());
    // By default, hyper buffers up to 400 KiB of each response.
    auto.http2().max_send_buf_size(1_024);
    let mut http2 = http2::Builder::new(TokioExecutor::new());
    http2.max_send_buf_size(1_024);
    match protocol {
        Http1 => {
            let connect = |io, service| http1::Builder::new().serve_connection(io, service);
            end(guard.serve(io, service, connect).await, protocol, opened)
        }
        Http2 => {
            let connect = |io, service| http2.serve_connection(io, service);
            end(guard.serve(io, service, connect).await, protocol, opened)
        }
        Auto1 | Auto2 => {
            let connect = |io, service| auto.serve_connection(io, service);
            end(guard.serve(io, service, connect).await, protocol, opened)
        }
        Auto1Upgrades | Auto2Upgrades => {
            let connect = |io, service| auto.serve_connection_with_upgrades(io, service);
            end(guard.serve(io, service, connect).await, protocol, opened)
        }
    }
}

/// Responds to a request. Its path selects the response:
///
/// | path | response |
/// |---|---|
/// | `/none` | at once, without a body |
/// | `/busy` | after work that lets other tasks run |
/// | `/after/MS` | after `MS` milliseconds |
/// | `/frames/N/MS` | at once, with a body of `N` frames, each after `MS` milliseconds |
/// | `/full/SIZE` | at once, with a body of this size in one frame |
/// | `/body/KIND` | at once, with a body of this kind |
/// | `/large` | at once, with a body of 8 MiB in one frame |
/// | `/endless` | at once, with an endless body of frames of 16 KiB |
/// | `/upload` | when the body of the request has ended |
/// | `/early` | at once. Another task reads the body of the request |
/// | `/fail` | the service fails |
/// | `/panic` | the future of the service panics |
pub(crate) async fn answer(request: Request<Incoming>) -> io::Result<Response<AnyBody>> {
    let path = request.uri().path().to_owned();
    let path: Vec<_> = path.split('/').skip(1).collect();
    let number = |part: &str| part.parse().expect("a number");
    match path[..] {
        ["after", millis] => sleep(ms(number(millis))).await,
        ["busy"] => {
            for _ in 0..100_000 {
                coop::consume_budget().await;
            }
        }
        ["upload"] => drop(request.into_body().collect().await),
        ["early"] => drop(tokio::spawn(request.into_body().collect())),
        ["fail"] => return Err(io::Error::other("the test's own service fails")),
        ["panic"] => panic!("the test's own service panics"),
        _ => {}
    }
    let (frames, size, pause) = match path[..] {
        ["body", kind] => return Ok(Response::new(body(kind))),
        ["full", size] => return Ok(Response::new(full(number(size) as usize))),
        ["none"] => (0, 0, 0),
        ["frames", frames, millis] => (number(frames), 4, number(millis)),
        ["large"] => (1, 8 << 20, 0),
        ["endless"] => (u64::MAX, 16 << 10, 0),
        _ => (1, 4, 0),
    };
    Ok(Response::new(Frames::new(frames, size, ms(pause)).boxed()))
}

/// A body that sends frames with pauses before them.
pub(crate) struct Frames {
    left: u64,
    size: usize,
    every: Duration,
    next: Sleep,
}

impl Frames {
    fn boxed(self) -> AnyBody {
        self.map_err(|never| match never {}).boxed_unsync()
    }

    pub(crate) fn new(left: u64, size: usize, every: Duration) -> Self {
        Self {
            left,
            size,
            every,
            next: sleep(every),
        }
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        ready!(Pin::new(&mut self.next).poll(cx));
        let every = self.every;
        Pin::new(&mut self.next).reset_after(every);
        self.left -= 1;
        let data = Bytes::from(vec![b'x'; self.size]);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }
}

pub(crate) type AnyBody = UnsyncBoxBody<Bytes, io::Error>;

fn streamed(frames: Vec<io::Result<Frame<Bytes>>>) -> AnyBody {
    UnsyncBoxBody::new(StreamBody::new(tokio_stream::iter(frames)))
}

fn full(length: usize) -> AnyBody {
    let body = Full::new(Bytes::from(vec![b'x'; length]));
    UnsyncBoxBody::new(body.map_err(|never: Infallible| match never {}))
}

/// A body of one byte that ends later. HTTP/1 does not wait for this end, because it has sent all bytes.
struct Late {
    is_sent: bool,
    end: Sleep,
}

impl Body for Late {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !std::mem::replace(&mut self.is_sent, true) {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))));
        }
        Pin::new(&mut self.end).poll(cx).map(|()| None)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(1)
    }
}

fn body(kind: &str) -> AnyBody {
    let data = |length| Ok(Frame::data(Bytes::from(vec![b'x'; length])));
    match kind {
        "empty" => UnsyncBoxBody::new(Empty::new().map_err(|never| match never {})),
        "short" => full(1),
        "full" => full(8 << 20),
        "empty-frames" => streamed(vec![data(0), data(0)]),
        "chunked" => streamed(vec![data(1), data(0), data(8 << 20), data(1)]),
        "late" => UnsyncBoxBody::new(Late {
            is_sent: false,
            end: sleep(secs(1)),
        }),
        "trailers" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            streamed(vec![data(8 << 20), Ok(Frame::trailers(trailers))])
        }
        "error" => streamed(vec![data(10), Err(io::Error::other("the test's own body"))]),
        _ => panic!("unknown kind: {kind}"),
    }
}

pub(crate) enum Client {
    One(client::conn::http1::SendRequest<axum::body::Body>),
    Two(client::conn::http2::SendRequest<axum::body::Body>),
}

impl Client {
    /// Returns another client for the same connection. Panics for HTTP/1.
    pub(crate) fn another(&self) -> Self {
        match self {
            Self::One(_) => panic!("HTTP/1 has one request at a time"),
            Self::Two(client) => Self::Two(client.clone()),
        }
    }

    pub(crate) async fn new(
        protocol: Protocol,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Self {
        let io = TokioIo::new(io);
        if protocol.is_http1() {
            let (client, connection) = client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            Self::One(client)
        } else {
            let executor = TokioExecutor::new();
            let (client, connection) = client::conn::http2::handshake(executor, io).await.unwrap();
            tokio::spawn(connection);
            Self::Two(client)
        }
    }

    /// Sends a request and returns the head of the response.
    pub(crate) async fn ask(&mut self, path: &str) -> hyper::Result<Response<Incoming>> {
        self.ask_with(Method::GET, path, axum::body::Body::empty())
            .await
    }

    pub(crate) async fn ask_with(
        &mut self,
        method: Method,
        path: &str,
        body: axum::body::Body,
    ) -> hyper::Result<Response<Incoming>> {
        let uri = match self {
            Self::One(_) => path.to_owned(),
            Self::Two(_) => format!("http://test{path}"),
        };
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("host", "test").body(body).unwrap();
        match self {
            Self::One(client) => {
                client.ready().await?;
                client.send_request(request).await
            }
            Self::Two(client) => {
                client.ready().await?;
                client.send_request(request).await
            }
        }
    }

    /// Sends a request and returns the length of the response's body.
    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<usize> {
        let body = self.ask(path).await?.into_body();
        Ok(body.collect().await?.to_bytes().len())
    }
}

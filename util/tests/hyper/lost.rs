//! Compares the number of lost requests with what a client counts that reads slowly, and stops.

use proptest::{collection::vec, prelude::*};

use super::*;

/// How a client asks and reads, and when the server shuts down.
#[derive(Clone, Debug)]
struct Program {
    /// The size of the buffers between server and client.
    buffer: usize,
    /// The paths, and the lengths of the bodies of the requests.
    asks: Vec<(String, usize)>,
    /// Numbers of bytes that the client reads, each after so many milliseconds.
    reads: Vec<(usize, u64)>,
    /// Whether the client then reads everything.
    reads_on: bool,
    /// When the shutdown begins, in milliseconds.
    until: u64,
}

fn path() -> impl Strategy<Value = String> {
    let fixed = |path: &'static str| Just(path.to_owned());
    prop_oneof![
        2 => fixed("/none"),
        3 => (1..2_000_usize).prop_map(|size| format!("/full/{size}")),
        2 => (2_000..150_000_usize).prop_map(|size| format!("/full/{size}")),
        2 => (1..30_u32, 0..2_u32).prop_map(|(frames, pause)| format!("/frames/{frames}/{pause}")),
        1 => (0..50_u32).prop_map(|pause| format!("/after/{pause}")),
        1 => fixed("/after/1000000"),
        1 => fixed("/upload"),
        1 => fixed("/early"),
        1 => fixed("/body/late"),
        1 => fixed("/body/empty-frames"),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    let upload = prop_oneof![3 => Just(0), 1 => 1..50_000_usize];
    let read = prop_oneof![1..200_usize, 1..100_000_usize];
    (
        prop_oneof![16..200_usize, 200..70_000_usize],
        vec((path(), upload), 1..20),
        vec((read, 0..20_u64), 0..15),
        any::<bool>(),
        50..500_u64,
    )
        .prop_map(|(buffer, asks, reads, reads_on, until)| Program {
            buffer,
            asks,
            reads,
            reads_on,
            until,
        })
}

/// Serves a connection that counts the requests that reach the service.
fn serve(
    io: DuplexStream,
    is_http2: bool,
    calls: &Arc<AtomicUsize>,
) -> (Connections, JoinHandle<usize>) {
    let connections = Connections::new(Limits::new().grace(secs(1)));
    let guard = connections.open().unwrap();
    let calls = calls.clone();
    let service = service_fn(move |request| {
        calls.fetch_add(1, Relaxed);
        answer(request)
    });
    let end = tokio::spawn(async move {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        if is_http2 {
            builder = builder.http2_only();
        }
        let connect = |io, service| builder.serve_connection(io, service);
        guard.serve(TokioIo::new(io), service, connect).await.lost()
    });
    (connections, end)
}

/// Reads as the program says, and passes everything on to `to`.
async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    mut to: impl AsyncWrite + Unpin,
    program: &Program,
) {
    for (length, pause) in &program.reads {
        sleep(ms(*pause)).await;
        let mut bytes = vec![0; *length];
        let Ok(Ok(length)) = tokio::time::timeout(ms(5), from.read(&mut bytes)).await else {
            continue;
        };
        let _ = to.write_all(&bytes[..length]).await;
    }
    if program.reads_on {
        let _ = tokio::time::timeout(secs(1_000), tokio::io::copy(from, &mut to)).await;
    }
}

/// Returns the number of whole responses of HTTP/1.
fn whole(mut bytes: &[u8]) -> usize {
    fn line<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let line = std::str::from_utf8(&bytes[..end]).unwrap();
        *bytes = &bytes[end + 2..];
        Some(line)
    }
    fn response(bytes: &mut &[u8]) -> Option<()> {
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let line = line(bytes)?.to_lowercase();
            is_chunked |= line == "transfer-encoding: chunked";
            match line.strip_prefix("content-length: ") {
                Some(value) => length = value.parse().unwrap(),
                None if line.is_empty() => break,
                None => {}
            }
        }
        while is_chunked {
            let size = usize::from_str_radix(line(bytes)?, 16).unwrap();
            *bytes = bytes.get(size + 2..)?;
            is_chunked = size > 0;
        }
        *bytes = bytes.get(length..)?;
        Some(())
    }
    std::iter::from_fn(|| response(&mut bytes)).count()
}

/// The client pipelines its requests.
async fn on_http1(program: Program) {
    let calls = Arc::default();
    let (client, io) = duplex(program.buffer);
    let (connections, end) = serve(io, false, &calls);
    let (mut reader, mut writer) = tokio::io::split(client);
    let mut requests = Vec::new();
    for (path, upload) in &program.asks {
        let method = if *upload > 0 { "POST" } else { "GET" };
        write!(
            requests,
            "{method} {path} HTTP/1.1\r\ncontent-length: {upload}\r\n\r\n"
        )
        .unwrap();
        requests.resize(requests.len() + upload, b'u');
    }
    let writes = tokio::spawn(async move {
        let _ = writer.write_all(&requests).await;
        pending::<()>().await;
    });
    let (reads, mut received) = (program.clone(), Vec::new());
    let reads = tokio::spawn(async move {
        pump(&mut reader, &mut received, &reads).await;
        (reader, received)
    });
    sleep(ms(program.until)).await;
    connections.shutdown().await;
    let lost = end.await.unwrap();
    let (mut reader, mut received) = reads.await.unwrap();
    let _ = reader.read_to_end(&mut received).await;
    writes.abort();
    let calls = calls.load(Relaxed);
    assert_eq!(lost, calls - whole(&received), "of {calls}");
}

async fn on_http2(program: Program) {
    let calls = Arc::default();
    let (theirs, io) = duplex(program.buffer);
    let (connections, end) = serve(io, true, &calls);
    let (ours, to_client) = duplex(1 << 20);
    let (mut from_server, mut to_server) = tokio::io::split(theirs);
    let (mut from_client, mut to_client) = tokio::io::split(to_client);
    let asks = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let reads = program.clone();
    let reads = tokio::spawn(async move {
        pump(&mut from_server, &mut to_client, &reads).await;
        (from_server, to_client)
    });
    // The handshake ends before the client has read anything.
    let client = Client::new(Http2, ours).await;
    let answers: Vec<_> = (program.asks.into_iter())
        .map(|(path, upload)| {
            let mut client = client.another();
            tokio::spawn(async move {
                let body = axum::body::Body::from(vec![b'u'; upload]);
                let answer = client.ask_with(Method::POST, &path, body).await?;
                answer.into_body().collect().await.map(drop)
            })
        })
        .collect();
    sleep(ms(program.until)).await;
    connections.shutdown().await;
    let lost = end.await.unwrap();
    let (mut from_server, mut to_client) = reads.await.unwrap();
    let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    drop((to_client, from_server));
    asks.abort();
    let _ = asks.await;
    drop(client);
    let mut whole = 0;
    for answer in answers {
        whole += usize::from(answer.await.unwrap().is_ok());
    }
    let calls = calls.load(Relaxed);
    if program.reads_on {
        assert_eq!(lost, calls - whole, "of {calls}");
    } else {
        assert!(
            (calls - whole..=calls).contains(&lost),
            "{lost} of {calls}, {whole} read"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn on_http1_the_client_has_read_the_others(program in program()) {
        paused().block_on(on_http1(program));
    }

    #[test]
    fn on_http2_the_client_may_have_read_more(program in program()) {
        paused().block_on(on_http2(program));
    }
}

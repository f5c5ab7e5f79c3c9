//! Tunnels: their limits, their counts, and that they copy what `copy_bidirectional` copies.

use std::{
    io::ErrorKind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tokio::io::copy_bidirectional_with_sizes;
use tokio_test::assert_ready;
use tokio_wheel::timeout;
use tokio_wheel_util::io::{Side, Tunnel, TunnelEnd, TunnelReason, tunnel};

use super::*;

type Pipe = Tunnel<DuplexStream, DuplexStream>;

/// Returns a tunnel, and the two peers outside of it.
fn between(room: usize) -> (Pipe, DuplexStream, DuplexStream) {
    let ((client, a), (b, server)) = (duplex(room), duplex(room));
    (tunnel(a, b), client, server)
}

#[track_caller]
fn assert_end(end: &TunnelEnd, reason: &str, a_to_b: u64, b_to_a: u64) {
    assert_eq!(format!("{:?}", end.reason), reason);
    assert_eq!((end.a_to_b, end.b_to_a), (a_to_b, b_to_a));
}

fn metrics() -> Metrics {
    Timer::current().metrics()
}

/// Each byte starts the timeout again, in either direction.
#[tokio::test(start_paused = true)]
async fn a_tunnel_is_idle_when_no_byte_moves_in_either_direction() {
    let (tunnel, mut client, mut server) = between(64);
    let start = Instant::now();
    let running = tokio::spawn(tunnel.idle(secs(10)));
    for _ in 0..3 {
        sleep(secs(9)).await;
        client.write_u8(1).await.unwrap();
        sleep(secs(9)).await;
        server.write_u8(2).await.unwrap();
    }
    assert_end(&running.await.unwrap(), "Idle", 3, 3);
    assert_eq!(start.elapsed(), secs(6 * 9 + 10));
    // The streams are dropped with the tunnel.
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, [2; 3]);
}

/// The server takes 4 bytes, and no more. Reads into the buffer are no progress when it is full.
#[tokio::test(start_paused = true)]
async fn a_peer_that_stops_reading_makes_a_tunnel_idle() {
    let (tunnel, mut client, _server) = between(4);
    let running = tokio::spawn(tunnel.idle(secs(10)).buffer(8));
    let mut taken = 0;
    let write = async {
        while timeout(secs(60), client.write_u8(1))
            .await
            .is_ok_and(|it| it.is_ok())
        {
            taken += 1;
        }
    };
    let (end, ()) = tokio::join!(running, write);
    // The two streams and the buffer are full.
    assert_eq!(taken, 4 + 8 + 4);
    assert_end(&end.unwrap(), "Idle", 4, 0);
}

/// The half-close timeout replaces the idle timeout, whether it is shorter or longer.
#[tokio::test(start_paused = true)]
async fn a_half_closed_tunnel_has_its_own_timeout() {
    for (idle, half_close, expected) in [
        (Some(60), Some(10), Some("HalfClosed")),
        (Some(10), Some(60), Some("HalfClosed")),
        (None, Some(10), Some("HalfClosed")),
        (Some(10), None, Some("Idle")),
        (None, None, None),
    ] {
        for client_ends in [true, false] {
            let (mut tunnel, mut client, mut server) = between(64);
            if let Some(limit) = idle {
                tunnel = tunnel.idle(secs(limit));
            }
            if let Some(limit) = half_close {
                tunnel = tunnel.half_close(secs(limit));
            }
            let (ending, other) = match client_ends {
                true => (&mut client, &mut server),
                false => (&mut server, &mut client),
            };
            let running = tokio::spawn(tunnel);
            sleep(secs(5)).await;
            ending.write_all(b"last").await.unwrap();
            ending.shutdown().await.unwrap();
            let start = Instant::now();
            let mut read = Vec::new();
            other.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, b"last");
            assert_eq!(start.elapsed(), secs(0), "the end must be passed on");
            // Bytes of the other direction prolong it.
            sleep(secs(8)).await;
            other.write_u8(7).await.unwrap();
            let end = match expected {
                Some(_) => running.await.unwrap(),
                None => {
                    sleep(secs(86_400)).await;
                    other.shutdown().await.unwrap();
                    running.await.unwrap()
                }
            };
            let (a_to_b, b_to_a) = if client_ends { (4, 1) } else { (1, 4) };
            assert_end(&end, expected.unwrap_or("Closed"), a_to_b, b_to_a);
            let limit = half_close.or(idle).unwrap_or(86_400);
            assert_eq!(start.elapsed(), secs(8 + limit));
        }
    }
}

/// The limit counts from the end that was read, even if the bytes before it cannot be written.
#[tokio::test(start_paused = true)]
async fn a_tunnel_whose_last_bytes_wait_is_half_closed() {
    let (tunnel, mut client, _server) = between(4);
    client.write_all(b"1234").await.unwrap();
    let running = tokio::spawn(tunnel.half_close(secs(10)));
    sleep(secs(3)).await;
    client.write_all(b"5678").await.unwrap();
    sleep(secs(3)).await;
    drop(client);
    let start = Instant::now();
    assert_end(&running.await.unwrap(), "HalfClosed", 4, 0);
    assert_eq!(start.elapsed(), secs(10));
}

/// Fails each operation of the kind that the test has chosen.
struct Failing {
    inner: DuplexStream,
    kind: ErrorKind,
    operation: Arc<Mutex<&'static str>>,
}

impl Failing {
    fn poll<T>(
        &mut self,
        operation: &'static str,
        poll: impl FnOnce(Pin<&mut DuplexStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if *self.operation.lock().unwrap() == operation {
            return Poll::Ready(Err(io::Error::new(self.kind, operation)));
        }
        poll(Pin::new(&mut self.inner))
    }
}

impl AsyncRead for Failing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll("read", |inner| inner.poll_read(cx, buf))
    }
}

impl AsyncWrite for Failing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll("write", |inner| inner.poll_write(cx, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll("flush", |inner| inner.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll("shutdown", |inner| inner.poll_shutdown(cx))
    }
}

/// Bytes have been copied both ways before an operation fails.
#[tokio::test(start_paused = true)]
async fn a_tunnel_that_fails_has_its_counts_and_the_side() {
    for operation in ["read", "write", "flush", "shutdown"] {
        for side in [Side::A, Side::B] {
            let ((inner, mut peer), (sound, mut other)) = (duplex(64), duplex(64));
            let chosen = Arc::new(Mutex::new(""));
            let failing = Failing {
                inner,
                kind: ErrorKind::Other,
                operation: chosen.clone(),
            };
            let mut tunnel: task::Spawn<Pin<Box<dyn Future<Output = TunnelEnd>>>> =
                task::spawn(match side {
                    Side::A => Box::pin(tunnel(failing, sound)),
                    Side::B => Box::pin(tunnel(sound, failing)),
                });
            other.write_all(b"12").await.unwrap();
            peer.write_all(b"3").await.unwrap();
            assert_pending!(tunnel.poll());
            *chosen.lock().unwrap() = operation;
            if operation != "read" {
                other.write_all(b"4567").await.unwrap();
            }
            if operation == "shutdown" {
                other.shutdown().await.unwrap();
            }
            let end = assert_ready!(tunnel.poll());
            let reason = format!(
                "Failed {{ side: {side:?}, error: Custom {{ kind: Other, error: {operation:?} }} }}"
            );
            let is_accepted = ["flush", "shutdown"].contains(&operation);
            let to_failing = if is_accepted { 6 } else { 2 };
            match side {
                Side::A => assert_end(&end, &reason, 1, to_failing),
                Side::B => assert_end(&end, &reason, to_failing, 1),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_takes_nothing_fails() {
    let (a, mut client) = duplex(4);
    client.write_u8(1).await.unwrap();
    let b = Scripted::new().reads([(secs(60), 1)]);
    let end = tunnel(a, b).await;
    let expected = "Failed { side: B, error: Kind(WriteZero) }";
    assert_end(&end, expected, 0, 0);
}

/// Such a stream answers a request that it has buffered only after a flush.
#[tokio::test(start_paused = true)]
async fn bytes_are_flushed_when_the_reader_waits() {
    let ((mut client, a), (b, mut server)) = (duplex(64), duplex(64));
    let running = tokio::spawn(tunnel(a, BufStream::new(b)).idle(secs(10)));
    client.write_all(b"request").await.unwrap();
    let mut request = [0; 7];
    timeout(secs(1), server.read_exact(&mut request))
        .await
        .unwrap()
        .unwrap();
    assert_end(&running.await.unwrap(), "Idle", 7, 0);
}

#[tokio::test(start_paused = true)]
async fn a_flush_and_a_shutdown_may_wait() {
    let (mut client, a) = duplex(64);
    let b = Scripted::new()
        .reads([(secs(9), 1)])
        .writes([(secs(1), 8)])
        .flushes([secs(4), secs(8)]);
    client.write_u8(1).await.unwrap();
    let start = Instant::now();
    let running = tokio::spawn(tunnel(a, b));
    sleep(secs(6)).await;
    client.shutdown().await.unwrap();
    assert_end(&running.await.unwrap(), "Closed", 1, 1);
    assert_eq!(start.elapsed(), secs(9));
}

#[tokio::test(start_paused = true)]
async fn a_flush_moves_no_byte() {
    let (mut client, a) = duplex(64);
    let b = Scripted::new()
        .reads([(secs(60), 1)])
        .writes([(secs(1), 8)])
        .flushes([secs(4)]);
    client.write_u8(1).await.unwrap();
    let start = Instant::now();
    assert_end(&tunnel(a, b).idle(secs(10)).await, "Idle", 1, 0);
    assert_eq!(start.elapsed(), secs(11));
}

/// A long use moves the entry only when it goes off.
#[tokio::test(start_paused = true)]
async fn a_tunnel_has_one_entry() {
    let (tunnel, mut client, mut server) = between(64);
    let mut tunnel = task::spawn(tunnel.idle(secs(60)).half_close(secs(10)));
    for i in 0..6_000 {
        client.write_u8(1).await.unwrap();
        assert_pending!(tunnel.poll());
        server.read_u8().await.unwrap();
        advance(ms(100)).await;
        assert_eq!(metrics().pending(), if i % 600 == 599 { 0 } else { 1 });
    }
    assert_pending!(tunnel.poll());
    assert_eq!((metrics().registered(), metrics().fired()), (11, 10));
    drop(tunnel);
    assert_eq!(metrics().pending(), 0);
}

/// Such a tunnel needs no runtime.
#[test]
fn a_tunnel_without_limits_registers_nothing() {
    let (tunnel, mut client, mut server) = between(64);
    let mut tunnel = task::spawn(tunnel);
    assert_pending!(tunnel.poll());
    tokio_test::block_on(client.write_all(b"bytes")).unwrap();
    assert!(tunnel.is_woken());
    assert_pending!(tunnel.poll());
    assert_eq!(tunnel.copied(), (5, 0));
    assert_eq!(
        format!("{:?}", *tunnel),
        "Tunnel { a_to_b: 5, b_to_a: 0, .. }"
    );
    drop(client);
    assert_pending!(tunnel.poll());
    let mut bytes = String::new();
    tokio_test::block_on(server.read_to_string(&mut bytes)).unwrap();
    assert_eq!(bytes, "bytes");
}

#[test]
fn a_tunnel_needs_a_buffer() {
    let message = "a tunnel's buffer must not be empty";
    assert_panics(|| between(1).0.buffer(0), &[message]);
}

/// Always has bytes, takes all bytes, and uses no budget.
struct Torrent(Arc<AtomicUsize>);

impl AsyncRead for Torrent {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buf.put_slice(b"x");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Torrent {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.0.fetch_add(1, Relaxed);
        Poll::Ready(Ok(1))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Both directions always have bytes. Each gets turns, and other tasks, too.
#[tokio::test(start_paused = true)]
async fn no_direction_and_no_task_starves() {
    let [a, b] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let running = tokio::spawn(tunnel(Torrent(a.clone()), Torrent(b.clone())));
    for _ in 0..40 {
        tokio::task::yield_now().await;
    }
    running.abort();
    for copied in [a, b] {
        let copied = copied.load(Relaxed);
        assert!((100..100_000).contains(&copied), "{copied}");
    }
}

/// The other future uses up the budget before each poll. The tunnel still ends.
#[tokio::test(start_paused = true)]
async fn a_tunnel_ends_without_budget() {
    let (tunnel, _client, _server) = between(64);
    let end = beside_a_greedy_sibling(tunnel.idle(ms(100))).await;
    assert_end(&end, "Idle", 0, 0);
}

/// Bytes in pieces of any size, with pauses, and buffers of any size: the peers read what they read from
/// `copy_bidirectional`, and the counts are equal.
#[test]
fn a_tunnel_copies_what_copy_bidirectional_copies() {
    // No piece is empty: pauses without bytes would add up to a limit.
    let pieces = || collection::vec((0..20_u64, collection::vec(0..=255_u8, 1..40)), 0..12);
    let config = proptest::test_runner::Config::with_cases(300);
    proptest::proptest!(config, |(there in pieces(), back in pieces(), room in 1..64_usize, buffer in 1..64_usize)| {
        let run = |limited: bool| paused().block_on(async {
            let ((client, mut a), (mut b, server)) = (duplex(room), duplex(room));
            let peers = [(client, there.clone()), (server, back.clone())].map(|(peer, pieces)| {
                let (mut reader, mut writer) = split(peer);
                let writes = async move {
                    for (pause, piece) in pieces {
                        sleep(ms(pause)).await;
                        writer.write_all(&piece).await.unwrap();
                    }
                    writer.shutdown().await.unwrap();
                };
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    let (read_all, ()) = tokio::join!(reader.read_to_end(&mut read), writes);
                    read_all.unwrap();
                    read
                })
            });
            let counts = if limited {
                let tunnel = tunnel(a, b).buffer(buffer).idle(ms(30)).half_close(ms(40));
                let end = tunnel.await;
                assert!(matches!(end.reason, TunnelReason::Closed), "{end:?}");
                (end.a_to_b, end.b_to_a)
            } else {
                copy_bidirectional_with_sizes(&mut a, &mut b, buffer, buffer).await.unwrap()
            };
            let [client, server] = peers;
            (counts, client.await.unwrap(), server.await.unwrap())
        });
        proptest::prop_assert_eq!(run(true), run(false));
    });
}

//! Measures what the limits of a stream cost a read that must wait once. Such reads are common on a
//! connection whose client is slower than its server.

use std::{
    future::poll_fn,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use criterion::{Criterion, criterion_group, criterion_main};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex},
    task::unconstrained,
};
use tokio_wheel_benches::{
    lab::{Lab, WORKERS},
    peer::TokioWheel,
};
use tokio_wheel_util::io::{Limits, MinRate};

/// A server's usual limit.
const LIMIT: Duration = Duration::from_secs(30);

/// A rate that only 67 million reads of a [`MESSAGE`] meet, so the stream must keep its window.
const RATE: MinRate = MinRate::new(u32::MAX as usize, Duration::from_secs(3_600));

const MESSAGE: [u8; 64] = [7; 64];

fn bare(stream: DuplexStream) -> DuplexStream {
    stream
}

fn their_timeout(stream: DuplexStream) -> tokio_io_timeout::TimeoutStream<DuplexStream> {
    let mut stream = tokio_io_timeout::TimeoutStream::new(stream);
    stream.set_read_timeout(Some(LIMIT));
    stream
}

fn our_timeout(stream: DuplexStream) -> tokio_wheel_util::io::TimeoutStream<DuplexStream> {
    tokio_wheel_util::io::TimeoutStream::with_limits(stream, Limits::new().read_timeout(LIMIT))
}

fn our_limits(stream: DuplexStream) -> tokio_wheel_util::io::TimeoutStream<DuplexStream> {
    let limits = Limits::new().read_timeout(LIMIT).idle_timeout(LIMIT);
    tokio_wheel_util::io::TimeoutStream::with_limits(stream, limits.min_read_rate(RATE))
}

fn no_limit(stream: DuplexStream) -> tokio_wheel_util::io::TimeoutStream<DuplexStream> {
    tokio_wheel_util::io::TimeoutStream::new(stream)
}

/// Reads messages, each once before and once after it was sent. The bench polls by hand, because
/// the scheduler would cost more than everything else.
async fn reads<S: AsyncRead>(iters: u64, limit: fn(DuplexStream) -> S) -> Duration {
    let (client, server) = duplex(4_096);
    let mut client = pin!(client);
    let mut server = pin!(limit(server));
    let start = Instant::now();
    for _ in 0..iters {
        let read = poll_fn(|cx| {
            let mut bytes = [0; MESSAGE.len()];
            let mut buf = ReadBuf::new(&mut bytes);
            assert!(server.as_mut().poll_read(cx, &mut buf).is_pending());
            assert!(client.as_mut().poll_write(cx, &MESSAGE).is_ready());
            assert!(server.as_mut().poll_read(cx, &mut buf).is_ready());
            Poll::Ready(buf.filled().len())
        });
        assert_eq!(read.await, MESSAGE.len());
    }
    start.elapsed()
}

/// Measures a kind of stream on one thread and on two.
fn measure<S>(c: &mut Criterion, name: &str, limit: fn(DuplexStream) -> S)
where
    S: AsyncRead + Send + 'static,
{
    let lab = Lab::quiet::<TokioWheel>(WORKERS);
    let mut group = c.benchmark_group("read");
    for threads in 1..=WORKERS {
        group.bench_function(format!("{name}/x{threads}"), |b| {
            b.iter_custom(|iters| {
                lab.time_per_thread(threads, || unconstrained(reads(iters, limit)))
            });
        });
    }
    group.finish();
}

fn read(c: &mut Criterion) {
    measure(c, "none", bare);
    measure(c, "tokio_wheel, no limit", no_limit);
    measure(c, "tokio_wheel, timeout", our_timeout);
    measure(c, "tokio_wheel, timeout, idle limit and rate", our_limits);
    measure(c, "tokio_io_timeout, timeout", their_timeout);
}

criterion_group!(benches, read);
criterion_main!(benches);

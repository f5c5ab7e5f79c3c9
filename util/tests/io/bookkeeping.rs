//! The entries that a stream registers, the tasks that it wakes, its memory and its traits.

use std::{
    error::Error,
    fmt::Debug,
    hash::Hash,
    io,
    marker::PhantomPinned,
    pin::{Pin, pin},
};

use static_assertions::{assert_impl_all, assert_not_impl_any};
use tokio::io::{
    AsyncBufRead, AsyncRead, AsyncReadExt, AsyncSeek, AsyncWrite, AsyncWriteExt, BufStream,
    DuplexStream, Empty, duplex, split,
};
use tokio_test::{assert_pending, task};
use tokio_wheel::{Duration, Metrics, Sleep, Timer, advance};
use tokio_wheel_util::io::{LimitExceeded, Limits, MinRate, TimeoutStream};

use crate::{
    exceeded,
    support::{ms, secs},
};

type File = io::Cursor<Vec<u8>>;

assert_impl_all!(TimeoutStream<DuplexStream>: Send, Sync, Unpin, Debug, AsyncRead, AsyncWrite);
assert_impl_all!(TimeoutStream<File>: AsyncRead, AsyncBufRead, AsyncSeek, AsyncWrite);
assert_impl_all!(TimeoutStream<BufStream<DuplexStream>>: AsyncRead, AsyncBufRead, AsyncWrite);
// A mere reader and a mere writer are enough.
assert_impl_all!(TimeoutStream<&'static [u8]>: AsyncRead);
assert_impl_all!(TimeoutStream<Vec<u8>>: AsyncWrite);
assert_not_impl_any!(TimeoutStream<PhantomPinned>: Unpin);
assert_not_impl_any!(TimeoutStream<std::rc::Rc<()>>: Send, Sync);
assert_impl_all!(MinRate: Send, Sync, Unpin, Copy, PartialEq, Debug);
assert_impl_all!(Limits: Send, Sync, Unpin, Copy, Default, Eq, Hash, Debug);
assert_impl_all!(LimitExceeded: Send, Sync, Unpin, Copy, PartialEq, Error, Into<io::Error>);

/// These methods have the signatures of the methods of tokio-io-timeout.
#[test]
fn signatures_are_those_of_tokio_io_timeout() {
    type Stream = TimeoutStream<Empty>;
    let _: fn(Empty) -> Stream = Stream::new;
    let _: fn(&Stream) -> &Empty = Stream::get_ref;
    let _: fn(&mut Stream) -> &mut Empty = Stream::get_mut;
    let _: fn(Pin<&mut Stream>) -> Pin<&mut Empty> = Stream::get_pin_mut;
    let _: fn(Stream) -> Empty = Stream::into_inner;
}

/// Sets every limit of a stream so high that no operation reaches it.
fn limit(stream: &mut TimeoutStream<DuplexStream>) {
    let rate = MinRate::new(1, secs(120));
    let limits = Limits::new()
        .read_timeout(secs(60))
        .write_timeout(secs(60))
        .idle_timeout(secs(90))
        .min_read_rate(rate)
        .min_write_rate(rate);
    stream.set_limits(limits);
    assert_eq!(stream.limits(), limits);
}

fn metrics() -> Metrics {
    Timer::current().metrics()
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_ready_at_once_registers_nothing() {
    let (mut client, server) = duplex(64);
    let mut stream = TimeoutStream::new(server);
    limit(&mut stream);
    for _ in 0..10 {
        client.write_u8(1).await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_u8(2).await.unwrap();
        stream.flush().await.unwrap();
        client.read_u8().await.unwrap();
    }
    stream.shutdown().await.unwrap();
    assert_eq!(metrics().registered(), 0);
}

/// Such a stream needs no runtime.
#[test]
fn a_stream_without_limits_registers_nothing() {
    let (mut client, server) = duplex(64);
    let mut stream = TimeoutStream::new(server);
    let mut read = task::spawn(stream.read_u8());
    assert_pending!(read.poll());
    tokio_test::block_on(client.write_u8(7)).unwrap();
    assert!(read.is_woken());
    assert_eq!(tokio_test::block_on(read).unwrap(), 7);

    limit(&mut stream);
    stream.set_limits(Limits::new());
    assert_eq!(stream.limits(), Limits::default());
    assert_pending!(task::spawn(stream.read_u8()).poll());
}

/// The entry stays registered between the operations of all directions and tasks.
#[tokio::test(start_paused = true)]
async fn a_stream_registers_one_entry() {
    let (mut client, server) = duplex(1);
    let mut stream = TimeoutStream::new(server);
    limit(&mut stream);
    stream.write_u8(2).await.unwrap();
    for _ in 0..100 {
        let mut read = task::spawn(stream.read_u8());
        assert_pending!(read.poll());
        client.write_u8(1).await.unwrap();
        read.await.unwrap();
        let mut write = task::spawn(stream.write_u8(2));
        assert_pending!(write.poll());
        client.read_u8().await.unwrap();
        write.await.unwrap();
        advance(ms(10)).await;
    }
    assert_eq!(metrics().registered(), 1);
    assert_eq!(metrics().pending(), 1);
}

/// An entry of an earlier operation wakes its task once. The next poll moves it to the right deadline.
#[tokio::test(start_paused = true)]
async fn a_task_is_woken_once_per_timeout_for_nothing() {
    let (mut client, server) = duplex(1);
    let limits = Limits::new().read_timeout(secs(60));
    let mut reader = TimeoutStream::with_limits(server, limits);
    let mut wakes = 0;
    let mut reads = task::spawn(async move {
        loop {
            reader.read_u8().await.unwrap();
        }
    });
    assert!(matches!(poll_unit(&mut reads), std::task::Poll::Pending));
    for _ in 0..300 {
        advance(secs(1)).await;
        if reads.is_woken() {
            wakes += 1;
            assert!(poll_unit(&mut reads).is_pending());
        }
        assert!(!reads.is_woken());
        client.write_u8(1).await.unwrap();
        assert!(reads.is_woken());
        assert!(poll_unit(&mut reads).is_pending());
    }
    assert!((4..=6).contains(&wakes), "{wakes}");
}

/// Polls a task that never ends.
fn poll_unit<F: Future<Output = ()>>(task: &mut task::Spawn<F>) -> std::task::Poll<()> {
    task.poll()
}

#[tokio::test(start_paused = true)]
async fn dropping_deregisters() {
    let (_client, server) = duplex(1);
    let mut stream = TimeoutStream::new(server);
    limit(&mut stream);
    stream.write_u8(2).await.unwrap();
    {
        let (mut reader, mut writer) = split(&mut stream);
        assert_pending!(task::spawn(reader.read_u8()).poll());
        assert_pending!(task::spawn(writer.write_u8(2)).poll());
    }
    assert_eq!(metrics().pending(), 2);
    drop(stream);
    assert_eq!((metrics().pending(), metrics().cancelled()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn into_inner_deregisters() {
    let (_client, server) = duplex(1);
    let limits = Limits::new().read_timeout(secs(60)).write_timeout(secs(60));
    let mut stream = TimeoutStream::with_limits(server, limits);
    assert_pending!(task::spawn(stream.read_u8()).poll());
    assert_eq!(metrics().pending(), 1);
    let mut stream = TimeoutStream::with_limits(stream.into_inner(), limits);
    assert_eq!(metrics().pending(), 0);
    stream.write_u8(2).await.unwrap();
    assert_pending!(task::spawn(stream.write_u8(2)).poll());
    assert_eq!(metrics().pending(), 1);
    drop(stream.into_inner());
    assert_eq!(metrics().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_with_a_timer_uses_this_timer() {
    let timer = Timer::builder().build().unwrap();
    let (_client, server) = duplex(1);
    let mut stream = TimeoutStream::with_timer(server, &timer);
    assert_eq!(stream.limits(), Limits::new());
    stream.set_limits(Limits::new().read_timeout(ms(10)).write_timeout(ms(10)));
    assert_eq!(timer.metrics().registered(), 0);
    exceeded(stream.write_all(b"ab").await);
    exceeded(stream.read_u8().await);
    drop(stream);

    let counts = timer.metrics();
    assert_eq!((counts.registered(), counts.fired()), (2, 2));
    assert_eq!(counts.pending(), 0);
    assert_eq!(metrics().registered(), 0);
}

/// The task that sets the limit has not polled the stream.
#[tokio::test(start_paused = true)]
async fn setting_a_limit_wakes_only_waiting_tasks() {
    let (mut client, server) = duplex(1);
    let limits = Limits::new().read_timeout(secs(60));
    let mut stream = pin!(TimeoutStream::with_limits(server, limits));
    for _ in 0..2 {
        let mut waiting = task::spawn(());
        let mut byte = [0];
        let mut buf = tokio::io::ReadBuf::new(&mut byte);
        let read = waiting.enter(|cx, _| stream.as_mut().poll_read(cx, &mut buf));
        assert!(read.is_pending());
        client.write_u8(1).await.unwrap();
        assert!(waiting.is_woken());
        let mut waiting = task::spawn(());
        let read = waiting.enter(|cx, _| stream.as_mut().poll_read(cx, &mut buf));
        assert!(read.is_ready());

        let other = Limits::new().idle_timeout(secs(90));
        for limits in [limits.read_timeout(secs(90)), other, limits] {
            stream.as_mut().set_limits_pinned(limits);
        }
        advance(ms(1)).await;
        assert!(!waiting.is_woken());
    }
    assert_eq!(metrics().fired(), 0);
}

#[tokio::test(start_paused = true)]
async fn setting_a_limit_wakes_a_task_that_waits_for_any_limit() {
    let kinds: [fn(Duration) -> Limits; 3] = [
        |limit| Limits::new().read_timeout(limit),
        |limit| Limits::new().idle_timeout(limit),
        |limit| Limits::new().min_read_rate(MinRate::new(1, limit)),
    ];
    for first in kinds {
        for second in kinds {
            let (_client, server) = duplex(1);
            let mut stream = TimeoutStream::with_limits(server, first(secs(60)));
            let waiting = waiting_read(&mut stream);
            stream.set_limits(second(secs(70)));
            advance(ms(1)).await;
            assert!(waiting.is_woken());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_limits_that_differ_wake_a_task() {
    let (_client, server) = duplex(1);
    let mut stream = TimeoutStream::new(server);
    limit(&mut stream);
    let waiting = waiting_read(&mut stream);
    let mut limits = stream.limits();
    stream.set_limits(limits);
    // These limits belong to the other direction.
    limits.write_timeout = None;
    limits.min_write_rate = None;
    stream.set_limits(limits);
    advance(ms(1)).await;
    assert!(!waiting.is_woken());
    limits.min_read_rate = None;
    stream.set_limits(limits);
    assert!(waiting.is_woken());
}

/// All durations of 292 years or more are equal.
#[tokio::test(start_paused = true)]
async fn durations_beyond_the_range_do_not_differ() {
    let century = secs(100 * 365 * 86_400);
    let limits = |duration| {
        let rate = MinRate::new(1, duration);
        let limits = Limits::new().read_timeout(duration).idle_timeout(duration);
        limits.min_read_rate(rate)
    };
    let (_client, server) = duplex(1);
    let mut stream = TimeoutStream::with_limits(server, limits(6 * century));
    assert_eq!(stream.limits(), limits(Duration::MAX));
    let waiting = waiting_read(&mut stream);
    stream.set_limits(limits(7 * century));
    assert!(!waiting.is_woken());
    stream.set_limits(limits(2 * century));
    assert!(waiting.is_woken());
    assert_eq!(stream.limits(), limits(2 * century));
}

/// Returns a task whose read waits.
fn waiting_read(stream: &mut TimeoutStream<DuplexStream>) -> task::Spawn<()> {
    let mut waiting = task::spawn(());
    let mut byte = [0];
    let mut buf = tokio::io::ReadBuf::new(&mut byte);
    let read = waiting.enter(|cx, _| Pin::new(stream).poll_read(cx, &mut buf));
    assert!(read.is_pending());
    waiting
}

/// The documentation of `io` and `docs/migration.md` state these sizes.
#[test]
fn the_limits_take_as_much_memory_as_documented() {
    assert_eq!(size_of::<Sleep>(), 32);
    assert_eq!(size_of::<TimeoutStream<()>>(), 96);
}

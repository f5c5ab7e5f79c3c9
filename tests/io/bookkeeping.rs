//! What the timer is asked to do, and what the compiler can check.

use std::{
    error::Error,
    fmt::Debug,
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
use tokio_wheel::{
    Duration, Metrics, Sleep, Timer, advance,
    io::{LimitExceeded, Limits, MinRate, TimeoutReader, TimeoutStream, TimeoutWriter},
};

use crate::{
    exceeded,
    support::{ms, secs},
};

type File = io::Cursor<Vec<u8>>;

assert_impl_all!(TimeoutReader<DuplexStream>: Send, Sync, Unpin, Debug, AsyncRead, AsyncWrite);
assert_impl_all!(TimeoutWriter<DuplexStream>: Send, Sync, Unpin, Debug, AsyncRead, AsyncWrite);
assert_impl_all!(TimeoutStream<DuplexStream>: Send, Sync, Unpin, Debug, AsyncRead, AsyncWrite);
assert_impl_all!(TimeoutReader<File>: AsyncRead, AsyncBufRead, AsyncSeek, AsyncWrite);
assert_impl_all!(TimeoutWriter<File>: AsyncRead, AsyncBufRead, AsyncSeek, AsyncWrite);
assert_impl_all!(TimeoutStream<BufStream<DuplexStream>>: AsyncRead, AsyncBufRead, AsyncWrite);
// One direction is enough where the other is not used.
assert_impl_all!(TimeoutReader<&'static [u8]>: AsyncRead);
assert_impl_all!(TimeoutWriter<Vec<u8>>: AsyncWrite);
assert_not_impl_any!(TimeoutReader<PhantomPinned>: Unpin);
assert_not_impl_any!(TimeoutWriter<PhantomPinned>: Unpin);
assert_not_impl_any!(TimeoutStream<PhantomPinned>: Unpin);
assert_not_impl_any!(TimeoutStream<std::rc::Rc<()>>: Send, Sync);
assert_impl_all!(MinRate: Send, Sync, Unpin, Copy, PartialEq, Debug);
assert_impl_all!(Limits: Send, Sync, Unpin, Copy, Default, PartialEq, Debug);
assert_impl_all!(LimitExceeded: Send, Sync, Unpin, Copy, PartialEq, Error, Into<io::Error>);

/// Bindings with the types of the original's items: a change of one `use` line.
#[test]
fn signatures_are_those_of_tokio_io_timeout() {
    type Limit = Option<Duration>;
    type Reader = TimeoutReader<Empty>;
    let _: fn(Empty) -> Reader = Reader::new;
    let _: fn(&Reader) -> Limit = Reader::timeout;
    let _: fn(&mut Reader, Limit) = Reader::set_timeout;
    let _: fn(Pin<&mut Reader>, Limit) = Reader::set_timeout_pinned;
    let _: fn(&Reader) -> &Empty = Reader::get_ref;
    let _: fn(&mut Reader) -> &mut Empty = Reader::get_mut;
    let _: fn(Pin<&mut Reader>) -> Pin<&mut Empty> = Reader::get_pin_mut;
    let _: fn(Reader) -> Empty = Reader::into_inner;

    type Writer = TimeoutWriter<Empty>;
    let _: fn(Empty) -> Writer = Writer::new;
    let _: fn(&Writer) -> Limit = Writer::timeout;
    let _: fn(&mut Writer, Limit) = Writer::set_timeout;
    let _: fn(Pin<&mut Writer>, Limit) = Writer::set_timeout_pinned;
    let _: fn(&Writer) -> &Empty = Writer::get_ref;
    let _: fn(&mut Writer) -> &mut Empty = Writer::get_mut;
    let _: fn(Pin<&mut Writer>) -> Pin<&mut Empty> = Writer::get_pin_mut;
    let _: fn(Writer) -> Empty = Writer::into_inner;

    type Stream = TimeoutStream<Empty>;
    let _: fn(Empty) -> Stream = Stream::new;
    let _: fn(&Stream) -> Limit = Stream::read_timeout;
    let _: fn(&mut Stream, Limit) = Stream::set_read_timeout;
    let _: fn(Pin<&mut Stream>, Limit) = Stream::set_read_timeout_pinned;
    let _: fn(&Stream) -> Limit = Stream::write_timeout;
    let _: fn(&mut Stream, Limit) = Stream::set_write_timeout;
    let _: fn(Pin<&mut Stream>, Limit) = Stream::set_write_timeout_pinned;
    let _: fn(&Stream) -> &Empty = Stream::get_ref;
    let _: fn(&mut Stream) -> &mut Empty = Stream::get_mut;
    let _: fn(Pin<&mut Stream>) -> Pin<&mut Empty> = Stream::get_pin_mut;
    let _: fn(Stream) -> Empty = Stream::into_inner;
}

/// Sets every limit of a stream, too far to be reached.
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
async fn what_is_ready_at_once_registers_nothing() {
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

/// Nor is a runtime needed.
#[test]
fn without_a_limit_there_is_no_timer() {
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

/// A timer stays registered from one operation to the next, whichever direction and task that has.
#[tokio::test(start_paused = true)]
async fn a_stream_registers_one_timer() {
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

/// A timer that is left over wakes its task once, and then is where it belongs.
#[tokio::test(start_paused = true)]
async fn a_task_is_woken_once_per_timeout_for_nothing() {
    let (mut client, server) = duplex(1);
    let mut reader = TimeoutReader::new(server);
    reader.set_timeout(Some(secs(60)));
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
async fn giving_up_the_limits_deregisters() {
    let (_client, server) = duplex(1);
    let mut reader = TimeoutReader::new(server);
    reader.set_timeout(Some(secs(60)));
    assert_pending!(task::spawn(reader.read_u8()).poll());
    assert_eq!(metrics().pending(), 1);
    let mut writer = TimeoutWriter::new(reader.into_inner());
    assert_eq!(metrics().pending(), 0);
    writer.set_timeout(Some(secs(60)));
    writer.write_u8(2).await.unwrap();
    assert_pending!(task::spawn(writer.write_u8(2)).poll());
    assert_eq!(metrics().pending(), 1);
    drop(writer.into_inner());
    assert_eq!(metrics().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_explicit_timer_is_the_one_that_is_used() {
    let timer = Timer::builder().build().unwrap();
    let peer = || duplex(1).0;

    let mut reader = TimeoutReader::with_timer(peer(), &timer);
    reader.set_timeout(Some(ms(10)));
    let mut writer = TimeoutWriter::with_timer(peer(), &timer);
    writer.set_timeout(Some(ms(10)));
    let mut stream = TimeoutStream::with_timer(peer(), &timer);
    stream.set_read_timeout(Some(ms(10)));
    stream.set_write_timeout(Some(ms(10)));
    assert_eq!(timer.metrics().registered(), 0);
    drop((reader, writer, stream));

    let (_client, server) = duplex(1);
    let mut writer = TimeoutWriter::with_timer(server, &timer);
    writer.set_timeout(Some(ms(10)));
    exceeded(writer.write_all(b"ab").await);
    let mut reader = TimeoutReader::with_timer(writer.into_inner(), &timer);
    reader.set_timeout(Some(ms(10)));
    exceeded(reader.read_u8().await);
    let mut stream = TimeoutStream::with_timer(reader.into_inner(), &timer);
    stream.set_read_timeout(Some(ms(10)));
    stream.set_write_timeout(Some(ms(10)));
    exceeded(stream.read_u8().await);
    exceeded(stream.write_u8(1).await);
    drop(stream);

    let counts = timer.metrics();
    assert_eq!((counts.registered(), counts.fired()), (4, 4));
    assert_eq!(counts.pending(), 0);
    assert_eq!(metrics().registered(), 0);
}

/// By a task that has not polled it.
#[tokio::test(start_paused = true)]
async fn setting_a_limit_wakes_only_what_waits() {
    let (mut client, server) = duplex(1);
    let mut stream = pin!(TimeoutStream::new(server));
    stream.as_mut().set_read_timeout_pinned(Some(secs(60)));
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

        stream.as_mut().set_read_timeout_pinned(Some(secs(90)));
        let limits = Limits::new().idle_timeout(secs(90));
        stream.as_mut().set_limits_pinned(limits);
        stream.as_mut().set_read_timeout_pinned(Some(secs(60)));
        advance(ms(1)).await;
        assert!(!waiting.is_woken());
    }
    assert_eq!(metrics().fired(), 0);
}

#[tokio::test(start_paused = true)]
async fn setting_a_limit_wakes_what_waits_for_any_other() {
    type Set = fn(&mut TimeoutStream<DuplexStream>, Duration);
    let sets: [Set; 4] = [
        |stream, limit| stream.set_read_timeout(Some(limit)),
        |stream, limit| stream.set_limits(Limits::new().read_timeout(limit)),
        |stream, limit| stream.set_limits(Limits::new().idle_timeout(limit)),
        |stream, limit| stream.set_limits(Limits::new().min_read_rate(MinRate::new(1, limit))),
    ];
    for first in sets {
        for second in sets {
            let (_client, server) = duplex(1);
            let mut stream = TimeoutStream::new(server);
            first(&mut stream, secs(60));
            let waiting = waiting_read(&mut stream);
            second(&mut stream, secs(70));
            advance(ms(1)).await;
            assert!(waiting.is_woken());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_limits_that_differ_wake_what_waits() {
    let (_client, server) = duplex(1);
    let mut stream = TimeoutStream::new(server);
    limit(&mut stream);
    let waiting = waiting_read(&mut stream);
    let mut limits = stream.limits();
    stream.set_limits(limits);
    // Of the other direction.
    limits.write_timeout = None;
    limits.min_write_rate = None;
    stream.set_limits(limits);
    advance(ms(1)).await;
    assert!(!waiting.is_woken());
    limits.min_read_rate = None;
    stream.set_limits(limits);
    assert!(waiting.is_woken());
}

/// A duration of 292 years or more is as good as the longest one.
#[tokio::test(start_paused = true)]
async fn durations_beyond_the_range_do_not_differ() {
    let century = secs(100 * 365 * 86_400);
    let limits = |duration| {
        let rate = MinRate::new(1, duration);
        let limits = Limits::new().read_timeout(duration).idle_timeout(duration);
        limits.min_read_rate(rate)
    };
    let (_client, server) = duplex(1);
    let mut stream = TimeoutStream::new(server);
    stream.set_limits(limits(6 * century));
    assert_eq!(stream.limits(), limits(Duration::MAX));
    let waiting = waiting_read(&mut stream);
    stream.set_limits(limits(7 * century));
    assert!(!waiting.is_woken());
    stream.set_limits(limits(2 * century));
    assert!(waiting.is_woken());
    assert_eq!(stream.limits(), limits(2 * century));
}

/// A task whose read has been polled, and waits.
fn waiting_read(stream: &mut TimeoutStream<DuplexStream>) -> task::Spawn<()> {
    let mut waiting = task::spawn(());
    let mut byte = [0];
    let mut buf = tokio::io::ReadBuf::new(&mut byte);
    let read = waiting.enter(|cx, _| Pin::new(stream).poll_read(cx, &mut buf));
    assert!(read.is_pending());
    waiting
}

/// The memory that `docs/migration.md` names, without the memory of the minimum rates.
#[test]
fn the_limits_take_as_much_memory_as_documented() {
    assert_eq!(size_of::<Sleep>(), 32);
    assert_eq!(size_of::<TimeoutReader<()>>(), 88);
    assert_eq!(size_of::<TimeoutWriter<()>>(), 88);
    assert_eq!(size_of::<TimeoutStream<()>>(), 88);
}

//! The entries that a stream registers, the tasks that it wakes, its memory and its traits.

use super::*;

/// The documentation of `io` states this size. A stream allocates nothing. With the feature `call-sites` of the core, each of
/// its two sleeps is longer.
#[test]
fn all_limits_take_200_bytes() {
    let sites = 2 * (size_of::<tokio_wheel::Sleep>() - 32);
    assert_eq!(size_of::<TimeoutStream<()>>() - sites, 200);
}

/// Limits that no operation reaches.
const RATE: MinRate = MinRate::new(1, secs(120));
const READS: Limits = Limits::new().read_timeout(secs(60)).min_read_rate(RATE);
const BOTH: Limits = READS.write_timeout(secs(60)).min_write_rate(RATE);
const ALL: Limits = BOTH.idle_timeout(secs(90));

fn limit(stream: &mut TimeoutStream<DuplexStream>) {
    stream.set_limits(ALL);
    assert_eq!(stream.limits(), ALL);
}

fn metrics() -> Metrics {
    Timer::current().metrics()
}

fn poll_read(stream: &mut TimeoutStream<DuplexStream>, cx: &mut Context<'_>) -> Poll<()> {
    let mut byte = [0];
    let read = Pin::new(stream).poll_read(cx, &mut ReadBuf::new(&mut byte));
    read.map(|result| result.unwrap())
}

fn waiting_read(stream: &mut TimeoutStream<DuplexStream>) -> task::Spawn<()> {
    let mut waiting = task::spawn(());
    assert_pending!(waiting.enter(|cx, _| poll_read(stream, cx)));
    waiting
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

/// The entries stay registered between the operations.
#[tokio::test(start_paused = true)]
async fn a_stream_registers_one_entry_for_each_direction() {
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
    assert_eq!((metrics().registered(), metrics().pending()), (2, 2));
    drop(stream);
    assert_eq!((metrics().pending(), metrics().cancelled()), (0, 2));
}

/// Each read that waits postpones the entry. Only the last entry fires.
#[tokio::test(start_paused = true)]
async fn a_task_is_woken_for_nothing_only_after_its_last_read() {
    let (mut client, server) = duplex(1);
    let limits = Limits::new().read_timeout(secs(60));
    let mut stream = TimeoutStream::with_limits(server, limits);
    let mut reader = task::spawn(());
    for _ in 0..300 {
        assert_pending!(reader.enter(|cx, _| poll_read(&mut stream, cx)));
        advance(secs(1)).await;
        assert!(!reader.is_woken());
        client.write_u8(1).await.unwrap();
        assert!(reader.enter(|cx, _| poll_read(&mut stream, cx)).is_ready());
    }
    assert_eq!((metrics().registered(), metrics().fired()), (1, 0));
    advance(secs(86_400)).await;
    assert_eq!((metrics().fired(), metrics().pending()), (1, 0));
}

/// No operation waits, although an entry is registered.
#[tokio::test(start_paused = true)]
async fn setting_a_limit_wakes_only_waiting_tasks() {
    let (mut client, server) = duplex(1);
    let limits = Limits::new().read_timeout(secs(60));
    let mut stream = TimeoutStream::with_limits(server, limits);
    let mut reader = waiting_read(&mut stream);
    client.write_u8(1).await.unwrap();
    assert!(reader.enter(|cx, _| poll_read(&mut stream, cx)).is_ready());
    let mut stream = pin!(stream);
    for limits in [Limits::new().idle_timeout(secs(90)), limits] {
        stream.as_mut().set_limits_pinned(limits);
    }
    advance(ms(1)).await;
    assert!(!reader.is_woken());
    assert_eq!(metrics().fired(), 0);
}

/// The idle timeout belongs to both directions.
#[tokio::test(start_paused = true)]
async fn only_limits_that_differ_wake_the_task_of_their_direction() {
    let (_client, server) = duplex(1);
    let mut stream = TimeoutStream::new(server);
    limit(&mut stream);
    let reader = waiting_read(&mut stream);
    let mut writer = task::spawn(());
    for is_ready in [true, false] {
        let write = writer.enter(|cx, _| Pin::new(&mut stream).poll_write(cx, b"x"));
        assert_eq!(write.is_ready(), is_ready);
    }
    // Equal limits wake no task, and neither do limits of the other direction.
    stream.set_limits(stream.limits());
    assert!(!writer.is_woken());
    stream.set_limits(READS.idle_timeout(secs(90)));
    assert!(!reader.is_woken() && writer.is_woken());
    let mut writer = task::spawn(());
    stream.set_limits(ALL);
    assert_pending!(writer.enter(|cx, _| Pin::new(&mut stream).poll_write(cx, b"x")));
    stream.set_limits(BOTH);
    assert!(reader.is_woken() && writer.is_woken());
}

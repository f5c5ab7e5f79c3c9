//! The idle timeout: no byte moves in either direction while an operation waits.

use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio_wheel::{Instant, sleep};
use tokio_wheel_util::io::{LimitExceeded, Limits, TimeoutStream};

use crate::{
    exceeded,
    script::Scripted,
    support::{ms, secs, settle},
};

const IDLE: LimitExceeded = LimitExceeded::IdleTimeout(ms(30));

fn idle(peer: Scripted) -> TimeoutStream<Scripted> {
    let limits = Limits::new().idle_timeout(ms(30));
    let stream = TimeoutStream::with_limits(peer, limits);
    assert_eq!(stream.limits().idle_timeout, Some(ms(30)));
    stream
}

#[tokio::test(start_paused = true)]
async fn every_operation_is_limited() {
    let never = secs(86_400);
    let peer = || {
        Scripted::new()
            .reads([(never, 1)])
            .writes([(never, 1)])
            .flushes([never])
    };
    let mut stream = idle(peer());
    let start = Instant::now();
    assert_eq!(exceeded(stream.read_u8().await), IDLE);
    assert_eq!(start.elapsed(), ms(30));
    assert_eq!(exceeded(stream.write(b"x").await), IDLE);
    assert_eq!(start.elapsed(), ms(60));
    assert_eq!(exceeded(stream.flush().await), IDLE);
    assert_eq!(start.elapsed(), ms(90));
    assert_eq!(exceeded(stream.shutdown().await), IDLE);
    assert_eq!(start.elapsed(), ms(120));
}

#[tokio::test(start_paused = true)]
async fn the_time_between_operations_does_not_count() {
    let mut stream = idle(Scripted::new().reads([(ms(125), 1), (secs(1), 1)]));
    sleep(ms(100)).await;
    stream.read_u8().await.unwrap();
    sleep(ms(100)).await;
    let start = Instant::now();
    assert_eq!(exceeded(stream.read_u8().await), IDLE);
    assert_eq!(start.elapsed(), ms(30));
}

/// The read runs in its own task, so nothing else polls it.
#[tokio::test(start_paused = true)]
async fn writes_keep_a_waiting_read_alive() {
    let peer = Scripted::new()
        .reads([(secs(10), 1)])
        .writes([0, 29, 58, 70, 99].map(|at| (ms(at), 1)));
    let (mut reader, mut writer) = split(idle(peer));
    let start = Instant::now();
    let read = tokio::spawn(async move {
        let result = reader.read_u8().await;
        (exceeded(result), start.elapsed())
    });
    writer.write_all(b"12345").await.unwrap();
    assert_eq!(start.elapsed(), ms(99));
    assert_eq!(read.await.unwrap(), (IDLE, ms(129)));
}

#[tokio::test(start_paused = true)]
async fn reads_keep_a_waiting_write_alive() {
    let peer = Scripted::new()
        .reads([0, 29, 58, 70, 99].map(|at| (ms(at), 1)))
        .writes([(secs(10), 1)]);
    let (mut reader, mut writer) = split(idle(peer));
    let start = Instant::now();
    let write = tokio::spawn(async move {
        let result = writer.write_all(b"x").await;
        (exceeded(result), start.elapsed())
    });
    reader.read_exact(&mut [0; 5]).await.unwrap();
    assert_eq!(start.elapsed(), ms(99));
    assert_eq!(write.await.unwrap(), (IDLE, ms(129)));
}

/// A ready flush, a write of 0 bytes and a failure move no byte.
#[tokio::test(start_paused = true)]
async fn operations_that_move_no_byte_keep_nothing_alive() {
    let peer = Scripted::new()
        .reads([(secs(10), 1)])
        .flushes([5, 10, 15].map(ms));
    let mut stream = idle(peer);
    let limits = stream.limits();
    stream.set_limits(limits.write_timeout(ms(3)));
    let (mut reader, mut writer) = split(stream);
    let start = Instant::now();
    let read = tokio::spawn(async move {
        let result = reader.read_u8().await;
        (exceeded(result), start.elapsed())
    });
    for _ in 0..3 {
        exceeded(writer.flush().await);
        writer.flush().await.unwrap();
        // The timetable of the writes is empty.
        assert_eq!(writer.write(b"x").await.unwrap(), 0);
    }
    assert_eq!(start.elapsed(), ms(15));
    assert_eq!(read.await.unwrap(), (IDLE, ms(30)));
}

/// Each half of a stream fails at its own time.
#[tokio::test(start_paused = true)]
async fn each_direction_waits_for_itself() {
    let (_client, server) = duplex(1);
    let limits = Limits::new().idle_timeout(ms(30));
    let stream = TimeoutStream::with_limits(server, limits);
    let (mut reader, mut writer) = split(stream);
    let start = Instant::now();
    let read = tokio::spawn(async move {
        let result = reader.read_u8().await;
        (exceeded(result), start.elapsed())
    });
    settle().await;
    sleep(ms(10)).await;
    writer.write_all(b"1").await.unwrap();
    sleep(ms(10)).await;
    assert_eq!(exceeded(writer.write_all(b"2").await), IDLE);
    assert_eq!(start.elapsed(), ms(50));
    assert_eq!(read.await.unwrap(), (IDLE, ms(40)));
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_the_limit_may_idle() {
    let mut stream = idle(Scripted::new().reads([(secs(10), 1)]));
    stream.set_limits(Limits::new());
    assert_eq!(stream.limits().idle_timeout, None);
    stream.read_u8().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn it_restarts_when_it_is_set() {
    let never = secs(10);
    let peer = Scripted::new().reads([(never, 1)]).writes([(never, 1)]);
    let mut stream = pin!(idle(peer));
    let limit = LimitExceeded::IdleTimeout(ms(40));
    let start = Instant::now();
    tokio::select! {
        _ = stream.read_u8() => unreachable!(),
        () = sleep(ms(20)) => {}
    }
    let limits = Limits::new().idle_timeout(ms(40));
    stream.as_mut().set_limits_pinned(limits);
    assert_eq!(exceeded(stream.read_u8().await), limit);
    assert_eq!(start.elapsed(), ms(60));
    assert_eq!(exceeded(stream.write(b"x").await), limit);
    assert_eq!(start.elapsed(), ms(100));
}

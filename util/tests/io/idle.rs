//! The idle timeout: no byte moves in either direction while an operation waits. `oracle` has more cases.

use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio_wheel::{Duration, Instant, sleep};
use tokio_wheel_util::io::{LimitExceeded, Limits, TimeoutStream};

use crate::{
    exceeded,
    script::Scripted,
    support::{ms, secs},
};

const IDLE: LimitExceeded = LimitExceeded::IdleTimeout(ms(30));

const NEVER: Duration = secs(86_400);

fn idle(peer: Scripted) -> TimeoutStream<Scripted> {
    TimeoutStream::with_limits(peer, Limits::new().idle_timeout(ms(30)))
}

/// The time between the operations does not count.
#[tokio::test(start_paused = true)]
async fn every_operation_is_limited() {
    let peer = Scripted::new().reads([(NEVER, 1)]).writes([(NEVER, 1)]);
    let mut stream = idle(peer.flushes([NEVER]));
    let start = Instant::now();
    assert_eq!(exceeded(stream.read_u8().await), IDLE);
    assert_eq!(start.elapsed(), ms(30));
    assert_eq!(exceeded(stream.write(b"x").await), IDLE);
    assert_eq!(start.elapsed(), ms(60));
    sleep(ms(100)).await;
    assert_eq!(exceeded(stream.flush().await), IDLE);
    assert_eq!(start.elapsed(), ms(190));
    assert_eq!(exceeded(stream.shutdown().await), IDLE);
    assert_eq!(start.elapsed(), ms(220));

    stream.set_limits(Limits::new());
    assert_eq!(stream.limits().idle_timeout, None);
    stream.read_u8().await.unwrap();
}

/// The operation that waits is in its own task, so nothing else polls it.
#[tokio::test(start_paused = true)]
async fn bytes_in_the_other_direction_keep_an_operation_alive() {
    let times = || [0, 29, 58, 70, 99].map(|at| (ms(at), 1));
    let start = Instant::now();
    let peer = Scripted::new().reads([(NEVER, 1)]).writes(times());
    let (mut reader, mut writer) = split(idle(peer));
    let waits = tokio::spawn(async move { (exceeded(reader.read_u8().await), start.elapsed()) });
    writer.write_all(b"12345").await.unwrap();
    assert_eq!(start.elapsed(), ms(99));
    assert_eq!(waits.await.unwrap(), (IDLE, ms(129)));

    let start = Instant::now();
    let peer = Scripted::new().reads(times()).writes([(NEVER, 1)]);
    let (mut reader, mut writer) = split(idle(peer));
    let waits = tokio::spawn(async move { (exceeded(writer.write_u8(7).await), start.elapsed()) });
    reader.read_exact(&mut [0; 5]).await.unwrap();
    assert_eq!(start.elapsed(), ms(99));
    assert_eq!(waits.await.unwrap(), (IDLE, ms(129)));
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
    let read = tokio::spawn(async move { (exceeded(reader.read_u8().await), start.elapsed()) });
    for _ in 0..3 {
        exceeded(writer.flush().await);
        writer.flush().await.unwrap();
        // The timetable of the writes is empty.
        assert_eq!(writer.write(b"x").await.unwrap(), 0);
    }
    assert_eq!(start.elapsed(), ms(15));
    assert_eq!(read.await.unwrap(), (IDLE, ms(30)));
}

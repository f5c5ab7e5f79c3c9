//! The idle timeout: no byte moves in either direction while an operation waits. `oracle` has more cases.

use super::*;

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
    assert_eq!(stream.limits(), Limits::new());
    stream.read_u8().await.unwrap();
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

//! One alarm for both directions of a stream, and two alarms once two tasks wait at the same time.

use std::{future::poll_fn, pin::Pin, task::Poll, thread};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, split},
    task::JoinHandle,
    time::sleep,
};
use tokio_test::task;
use tokio_wheel::{Duration, Instant, Timer, advance};
use tokio_wheel_util::io::{LimitExceeded, Limits, TimeoutStream};

use crate::{
    exceeded,
    script::Scripted,
    support::{current_thread, ms, secs, settle},
};

type Stream = TimeoutStream<Scripted>;

/// Creates a stream on which no byte moves for a day.
fn stream(read: Duration, write: Duration) -> Stream {
    let never = secs(86_400);
    let limits = Limits::new().read_timeout(read).write_timeout(write);
    let peer = Scripted::new().reads([(never, 1)]).writes([(never, 1)]);
    TimeoutStream::with_limits(peer, limits)
}

fn pending() -> u64 {
    Timer::current().metrics().pending()
}

/// The exceeded limit, and the time until then.
type End = (LimitExceeded, Duration);

async fn read(start: Instant, reader: &mut (impl AsyncRead + Unpin)) -> End {
    (exceeded(reader.read_u8().await), start.elapsed())
}

async fn write(start: Instant, writer: &mut (impl AsyncWrite + Unpin)) -> End {
    (exceeded(writer.write_u8(7).await), start.elapsed())
}

/// Polls a read of one byte. The value tells whether the read succeeded.
fn poll_read(task: &mut task::Spawn<()>, stream: &mut Stream) -> Poll<bool> {
    let mut byte = [0];
    let mut buf = ReadBuf::new(&mut byte);
    let read = task.enter(|cx, _| Pin::new(stream).poll_read(cx, &mut buf));
    read.map(|result| result.is_ok())
}

fn poll_write(task: &mut task::Spawn<()>, stream: &mut Stream) -> Poll<bool> {
    let write = task.enter(|cx, _| Pin::new(stream).poll_write(cx, b"x"));
    write.map(|result| result.is_ok())
}

const LIMITS: [(u64, u64); 4] = [(10, 20), (20, 10), (10, 10), (10, 35)];

#[tokio::test(start_paused = true)]
async fn one_task_that_waits_in_both_directions_has_one_alarm() {
    for (r, w) in LIMITS {
        let (mut reader, mut writer) = split(stream(ms(r), ms(w)));
        for _ in 0..3 {
            let start = Instant::now();
            let ((), read, write) = tokio::join!(
                async {
                    settle().await;
                    assert_eq!(pending(), 1);
                },
                read(start, &mut reader),
                write(start, &mut writer),
            );
            assert_eq!(read, (LimitExceeded::ReadTimeout(ms(r)), ms(r)));
            assert_eq!(write, (LimitExceeded::WriteTimeout(ms(w)), ms(w)));
        }
    }
}

/// The two tasks start to wait at different times, in either order.
#[tokio::test(start_paused = true)]
async fn each_of_two_tasks_is_woken_at_its_own_limit() {
    for (r, w) in LIMITS {
        for (r_from, w_from) in [(1, 2), (2, 1), (1, 5), (5, 1)] {
            let (mut reader, mut writer) = split(stream(ms(r), ms(w)));
            let start = Instant::now();
            let read = tokio::spawn(async move {
                sleep(ms(r_from)).await;
                read(start, &mut reader).await
            });
            let write = tokio::spawn(async move {
                sleep(ms(w_from)).await;
                write(start, &mut writer).await
            });
            sleep(ms(6)).await;
            assert_eq!(pending(), 2);
            let (read, write) = (read.await.unwrap(), write.await.unwrap());
            assert_eq!(read, (LimitExceeded::ReadTimeout(ms(r)), ms(r_from + r)));
            assert_eq!(write, (LimitExceeded::WriteTimeout(ms(w)), ms(w_from + w)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_goes_away_leaves_the_other_its_limit() {
    for (r, w) in LIMITS {
        for reader_first in [true, false] {
            for reader_stays in [true, false] {
                let (mut reader, mut writer) = split(stream(ms(r), ms(w)));
                let start = Instant::now();
                let reading = async move { read(start, &mut reader).await };
                let writing = async move { write(start, &mut writer).await };
                let (read, write): (JoinHandle<End>, JoinHandle<End>);
                if reader_first {
                    read = tokio::spawn(reading);
                    settle().await;
                    write = tokio::spawn(writing);
                } else {
                    write = tokio::spawn(writing);
                    settle().await;
                    read = tokio::spawn(reading);
                }
                sleep(ms(5)).await;
                let (stays, goes, limit) = if reader_stays {
                    (read, write, (LimitExceeded::ReadTimeout(ms(r)), ms(r)))
                } else {
                    (write, read, (LimitExceeded::WriteTimeout(ms(w)), ms(w)))
                };
                goes.abort();
                assert_eq!(stays.await.unwrap(), limit);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_go_from_one_task_to_two_and_back() {
    for (r, w) in LIMITS {
        let mut stream = stream(ms(r), ms(w));
        let limits = (
            (LimitExceeded::ReadTimeout(ms(r)), ms(r)),
            (LimitExceeded::WriteTimeout(ms(w)), ms(w)),
        );
        for _ in 0..3 {
            let (mut reader, mut writer) = split(stream);
            let start = Instant::now();
            let ends = tokio::join!(read(start, &mut reader), write(start, &mut writer));
            assert_eq!(ends, limits);

            let start = Instant::now();
            let reads = tokio::spawn(async move { (read(start, &mut reader).await, reader) });
            let writes = tokio::spawn(async move { (write(start, &mut writer).await, writer) });
            let (read, reader) = reads.await.unwrap();
            let (write, writer) = writes.await.unwrap();
            assert_eq!((read, write), limits);
            stream = reader.unsplit(writer);
        }
    }
}

/// The second task continues the operations that the first task has canceled.
#[tokio::test(start_paused = true)]
async fn a_stream_may_move_to_another_task_while_it_waits() {
    for first_waits_in_both in [true, false] {
        let mut stream = stream(ms(20), ms(30));
        let (mut first, mut second) = (task::spawn(()), task::spawn(()));
        assert!(poll_read(&mut first, &mut stream).is_pending());
        if first_waits_in_both {
            assert!(poll_write(&mut first, &mut stream).is_pending());
        }
        advance(ms(5)).await;
        assert!(poll_write(&mut second, &mut stream).is_pending());
        assert!(poll_read(&mut second, &mut stream).is_pending());
        advance(ms(15)).await;
        assert!(second.is_woken());
        assert_eq!(poll_read(&mut second, &mut stream), Poll::Ready(false));
        assert!(poll_write(&mut second, &mut stream).is_pending());
        advance(ms(15)).await;
        assert!(second.is_woken());
        assert_eq!(poll_write(&mut second, &mut stream), Poll::Ready(false));
    }
}

/// A fired alarm belongs to no task, even if its task has not polled since.
#[tokio::test(start_paused = true)]
async fn an_alarm_that_has_fired_may_be_taken() {
    let never = secs(86_400);
    let peer = Scripted::new().reads([(ms(5), 1), (never, 1)]);
    let limits = Limits::new().read_timeout(ms(10)).write_timeout(ms(50));
    let mut stream = TimeoutStream::with_limits(peer.writes([(never, 1)]), limits);
    let (mut reader, mut writer) = (task::spawn(()), task::spawn(()));
    assert!(poll_read(&mut reader, &mut stream).is_pending());
    advance(ms(5)).await;
    assert_eq!(poll_read(&mut reader, &mut stream), Poll::Ready(true));
    stream.set_limits(limits.read_timeout(ms(40)));
    assert!(poll_read(&mut reader, &mut stream).is_pending());
    advance(ms(5)).await;
    assert!(reader.is_woken(), "the alarm must fire at the old deadline");
    assert!(poll_write(&mut writer, &mut stream).is_pending());
    assert_eq!(pending(), 1);
    assert!(poll_read(&mut reader, &mut stream).is_pending());
    assert_eq!(pending(), 2);
    advance(ms(35)).await;
    assert!(reader.is_woken() && !writer.is_woken());
    advance(ms(15)).await;
    assert!(writer.is_woken());
}

/// Setting a limit wakes the waiting task immediately. So another task may take the alarm before the waiting task
/// polls, even if the driver is late.
#[test]
fn a_task_whose_limit_is_set_is_woken_before_another_takes_the_alarm() {
    current_thread().block_on(poll_fn(|_| {
        let mut stream = stream(ms(20), secs(3_600));
        let (mut reader, mut writer) = (task::spawn(()), task::spawn(()));
        assert!(poll_read(&mut reader, &mut stream).is_pending());
        // The driver shares this thread and therefore is late.
        thread::sleep(ms(30));
        assert!(!reader.is_woken());
        let limits = stream.limits();
        stream.set_limits(limits.read_timeout(secs(3_600)));
        assert!(reader.is_woken());
        assert!(poll_write(&mut writer, &mut stream).is_pending());
        assert!(poll_read(&mut reader, &mut stream).is_pending());
        assert!(!writer.is_woken());
        Poll::Ready(())
    }));
}

/// The second alarm belongs to the explicit timer too.
#[tokio::test(start_paused = true)]
async fn both_alarms_belong_to_the_timer_of_the_stream() {
    let timer = Timer::builder().build().unwrap();
    let never = secs(86_400);
    let peer = Scripted::new().reads([(never, 1)]).writes([(never, 1)]);
    let mut stream = TimeoutStream::with_timer(peer, &timer);
    stream.set_limits(Limits::new().idle_timeout(ms(10)));
    let (mut reader, mut writer) = (task::spawn(()), task::spawn(()));
    assert!(poll_read(&mut reader, &mut stream).is_pending());
    assert!(poll_write(&mut writer, &mut stream).is_pending());
    assert_eq!((timer.metrics().pending(), pending()), (2, 0));
    advance(ms(10)).await;
    assert!(reader.is_woken() && writer.is_woken());
}

//! The minimum rate, transition by transition of the module's state table.

use std::io::IoSlice;

use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufStream, duplex, split,
};
use tokio_wheel::{
    Duration, Instant,
    io::{LimitExceeded, Limits, MinRate, TimeoutStream},
    sleep,
};

use crate::{
    exceeded,
    script::Scripted,
    support::{ms, panics::assert_panics, secs},
};

/// Ten bytes in 100 ms of waiting.
const RATE: MinRate = MinRate::new(10, ms(100));
const SILENT: MinRate = RATE.allow_silence();

fn stream(rate: MinRate, peer: Scripted) -> TimeoutStream<Scripted> {
    let mut stream = TimeoutStream::new(peer);
    stream.set_limits(Limits::new().min_read_rate(rate));
    assert_eq!(stream.limits().min_read_rate, Some(rate));
    stream
}

/// `bytes` every `period`, `times` times, the first time after one period.
fn every(period: Duration, times: u32, bytes: usize) -> impl Iterator<Item = (Duration, usize)> {
    (1..=times).map(move |n| (n * period, bytes))
}

/// The error, and how many bytes were read before it.
async fn read_until_exceeded(reader: impl AsyncReadExt) -> (LimitExceeded, usize) {
    let mut reader = std::pin::pin!(reader);
    let mut bytes = Vec::new();
    let result = reader.read_to_end(&mut bytes).await;
    (exceeded(result), bytes.len())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_dribbles_is_cut_off_when_the_window_is_over() {
    let start = Instant::now();
    let stream = stream(RATE, Scripted::new().reads(every(ms(15), 1_000, 1)));
    let limit = LimitExceeded::ReadRate(RATE);
    assert_eq!(read_until_exceeded(stream).await, (limit, 6));
    assert_eq!(start.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_cut_off_when_the_window_is_over() {
    let start = Instant::now();
    let stream = stream(RATE, Scripted::new().reads([(secs(10), 1)]));
    let limit = LimitExceeded::ReadRate(RATE);
    assert_eq!(read_until_exceeded(stream).await, (limit, 0));
    assert_eq!(start.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_just_fast_enough_is_never_cut_off() {
    for rate in [RATE, SILENT] {
        for (period, bytes) in [(9, 1), (10, 1), (19, 2), (45, 5), (99, 10), (99, 1_000)] {
            let reads = every(ms(period), 500, bytes);
            let mut stream = stream(rate, Scripted::new().reads(reads));
            let mut received = Vec::new();
            stream.read_to_end(&mut received).await.unwrap();
            assert_eq!(received.len(), 500 * bytes);
        }
    }
}

/// It opens when the one before is met, not when that would have been over.
#[tokio::test(start_paused = true)]
async fn a_window_that_is_met_opens_the_next() {
    let start = Instant::now();
    let reads = [(ms(20), 9), (ms(50), 1), (ms(149), 9)];
    let stream = stream(RATE, Scripted::new().reads(reads).reads_never());
    let limit = LimitExceeded::ReadRate(RATE);
    assert_eq!(read_until_exceeded(stream).await, (limit, 19));
    assert_eq!(start.elapsed(), ms(150));
}

/// More than the rate requires is no credit for later.
#[tokio::test(start_paused = true)]
async fn many_bytes_meet_one_window() {
    let start = Instant::now();
    let reads = [(ms(20), 1_000_000)];
    let stream = stream(RATE, Scripted::new().reads(reads).reads_never());
    let limit = LimitExceeded::ReadRate(RATE);
    assert_eq!(read_until_exceeded(stream).await, (limit, 1_000_000));
    assert_eq!(start.elapsed(), ms(120));
}

/// Neither before the first operation, nor between two of them.
#[tokio::test(start_paused = true)]
async fn the_time_that_the_application_takes_does_not_count() {
    let reads = [(ms(1_030), 1), (ms(2_060), 1), (ms(3_000), 1)];
    let mut stream = stream(RATE, Scripted::new().reads(reads).reads_never());
    let start = Instant::now();
    sleep(secs(1)).await;
    stream.read_u8().await.unwrap();
    assert_eq!(start.elapsed(), ms(1_030));
    sleep(secs(1)).await;
    stream.read_u8().await.unwrap();
    assert_eq!(start.elapsed(), ms(2_060));
    sleep(secs(1)).await;
    // Ready at once.
    stream.read_u8().await.unwrap();
    assert_eq!(start.elapsed(), ms(3_060));
    sleep(secs(1)).await;
    // 60 ms have been waited.
    let limit = LimitExceeded::ReadRate(RATE);
    assert_eq!(exceeded(stream.read_u8().await), limit);
    assert_eq!(start.elapsed(), ms(4_100));
}

#[tokio::test(start_paused = true)]
async fn after_the_error_a_window_opens() {
    let start = Instant::now();
    let mut stream = stream(RATE, Scripted::new().reads([(ms(150), 9)]).reads_never());
    let limit = LimitExceeded::ReadRate(RATE);
    assert_eq!(exceeded(stream.read_u8().await), limit);
    assert_eq!(start.elapsed(), ms(100));
    stream.read_exact(&mut [0; 9]).await.unwrap();
    assert_eq!(exceeded(stream.read_u8().await), limit);
    assert_eq!(start.elapsed(), ms(200));
}

/// What a timeout cuts off has waited all the same.
#[tokio::test(start_paused = true)]
async fn the_window_goes_on_after_the_error_of_another_limit() {
    for rate in [RATE, SILENT] {
        let start = Instant::now();
        let reads = [(ms(5), 1), (ms(110), 1)];
        let mut stream = stream(rate, Scripted::new().reads(reads).reads_never());
        stream.set_read_timeout(Some(ms(60)));
        stream.read_u8().await.unwrap();
        let limit = LimitExceeded::ReadTimeout(ms(60));
        assert_eq!(exceeded(stream.read_u8().await), limit);
        assert_eq!(start.elapsed(), ms(65));
        let limit = LimitExceeded::ReadRate(rate);
        if !rate.allows_silence() {
            assert_eq!(exceeded(stream.read_u8().await), limit);
            assert_eq!(start.elapsed(), ms(100));
            continue;
        }
        stream.read_u8().await.unwrap();
        assert_eq!(start.elapsed(), ms(110));
        // The window opened at 5 ms.
        stream.read_u8().await.unwrap_err();
    }
}

/// A read that is ready late brings its bytes; it is the next that fails.
#[tokio::test(start_paused = true)]
async fn bytes_that_come_too_late_are_not_lost() {
    let reads = || {
        Scripted::new()
            .reads([(ms(5), 1), (ms(130), 1)])
            .reads_never()
    };
    for rate in [RATE, SILENT] {
        let start = Instant::now();
        let mut stream = stream(rate, reads());
        stream.read_u8().await.unwrap();
        tokio::select! {
            biased;
            _ = stream.read_u8() => unreachable!(),
            () = sleep(ms(1)) => {}
        }
        // Nobody has polled when the window was over.
        sleep(ms(200)).await;
        stream.read_u8().await.unwrap();
        let limit = LimitExceeded::ReadRate(rate);
        let late = start.elapsed();
        assert_eq!(exceeded(stream.read_u8().await), limit);
        assert!(start.elapsed() - late <= ms(1));
    }
}

/// If enough is there by then, nothing fails.
#[tokio::test(start_paused = true)]
async fn a_window_that_is_met_late_is_met() {
    for rate in [RATE, SILENT] {
        let reads = [(ms(5), 1), (ms(130), 8), (ms(131), 1), (ms(240), 10)];
        let mut stream = stream(rate, Scripted::new().reads(reads));
        stream.read_u8().await.unwrap();
        tokio::select! {
            biased;
            _ = stream.read_u8() => unreachable!(),
            () = sleep(ms(1)) => {}
        }
        sleep(ms(194)).await;
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        assert_eq!(received.len(), 19);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_left_to_the_timeouts() {
    let start = Instant::now();
    let reads = [(secs(30), 1), (secs(100), 1)];
    let mut stream = stream(SILENT, Scripted::new().reads(reads));
    stream.set_read_timeout(Some(secs(60)));
    stream.read_u8().await.unwrap();
    let limit = LimitExceeded::ReadTimeout(secs(60));
    assert_eq!(exceeded(stream.read_u8().await), limit);
    assert_eq!(start.elapsed(), secs(90));
}

/// The window opens with the first byte, and is judged when the first comes after its end.
#[tokio::test(start_paused = true)]
async fn a_client_that_dribbles_is_cut_off_though_silence_is_allowed() {
    // A byte every 12 ms is too slow by little enough that the byte that comes too late is the tenth.
    let clients = [
        (1, None, 1_000),
        (12, None, 1_000),
        (13, Some(117), 9),
        (30, Some(150), 5),
    ];
    for (period, at, bytes) in clients {
        let start = Instant::now();
        let reads = every(ms(period), 1_000, 1);
        let mut stream = stream(SILENT, Scripted::new().reads(reads));
        let mut received = Vec::new();
        let result = stream.read_to_end(&mut received).await;
        assert_eq!(received.len(), bytes);
        match at {
            None => assert_eq!(result.unwrap(), bytes),
            Some(at) => {
                assert_eq!(exceeded(result), LimitExceeded::ReadRate(SILENT));
                assert_eq!(start.elapsed(), ms(at));
            }
        }
    }
}

/// To the very tick: bytes that come when it is over are too late.
#[tokio::test(start_paused = true)]
async fn a_window_is_over_at_its_end() {
    for (at, cut_off) in [(109, false), (110, true)] {
        let reads = [(ms(10), 1), (ms(at), 1), (ms(112), 100)];
        let mut stream = stream(SILENT, Scripted::new().reads(reads));
        let result = stream.read_to_end(&mut Vec::new()).await;
        assert_eq!(result.is_err(), cut_off);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_follows_the_error_where_it_is_allowed() {
    let reads = [(ms(10), 1), (ms(200), 1), (secs(100), 10)];
    let mut stream = stream(SILENT, Scripted::new().reads(reads));
    stream.read_exact(&mut [0; 2]).await.unwrap();
    let limit = LimitExceeded::ReadRate(SILENT);
    assert_eq!(exceeded(stream.read_u8().await), limit);
    stream.read_exact(&mut [0; 10]).await.unwrap();
}

/// Requests of a few bytes, with much silence in between, all of them answered.
#[tokio::test(start_paused = true)]
async fn an_answer_closes_the_window() {
    let (mut client, server) = duplex(64);
    let mut stream = TimeoutStream::new(server);
    stream.set_limits(Limits::new().min_read_rate(SILENT));
    let client = tokio::spawn(async move {
        for _ in 0..10 {
            client.write_all(b"ping").await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
            sleep(secs(60)).await;
        }
    });
    for _ in 0..10 {
        let mut request = [0; 4];
        stream.read_exact(&mut request).await.unwrap();
        stream.write_all(&request).await.unwrap();
    }
    client.await.unwrap();
}

/// An answer by another task, while a read waits; and one to a request that was too slow.
#[tokio::test(start_paused = true)]
async fn an_answer_closes_the_window_of_a_waiting_read() {
    let reads = [10, 200, 400].map(|at| (ms(at), 1));
    let peer = Scripted::new()
        .reads(reads)
        .writes([50, 200, 350].map(|at| (ms(at), 1)));
    let (mut reader, mut writer) = split(stream(SILENT, peer));
    let read = tokio::spawn(async move { reader.read_to_end(&mut Vec::new()).await });
    writer.write_all(b"abc").await.unwrap();
    assert_eq!(read.await.unwrap().unwrap(), 3);

    let peer = Scripted::new()
        .reads(reads)
        .writes([(ms(0), 1), (secs(10), 1)]);
    let mut stream = stream(SILENT, peer);
    stream.read_exact(&mut [0; 2]).await.unwrap();
    // Too late, but it was the whole of a request.
    stream.write_all(b"x").await.unwrap();
    stream.read_u8().await.unwrap();

    let peer = Scripted::new().reads(reads).writes([(ms(0), 1)]);
    let mut stream = self::stream(SILENT, peer);
    stream.read_exact(&mut [0; 2]).await.unwrap();
    let slices = [IoSlice::new(b"x")];
    assert_eq!(stream.write_vectored(&slices).await.unwrap(), 1);
    stream.read_u8().await.unwrap();
}

/// Only bytes: not a flush, not a write of nothing, and none where silence is not allowed.
#[tokio::test(start_paused = true)]
async fn what_is_no_answer_closes_nothing() {
    let reads = [10, 200, 400].map(|at| (ms(at), 1));
    let mut stream = stream(SILENT, Scripted::new().reads(reads));
    stream.read_exact(&mut [0; 2]).await.unwrap();
    stream.flush().await.unwrap();
    assert_eq!(stream.write(b"x").await.unwrap(), 0);
    exceeded(stream.read_u8().await);

    let peer = Scripted::new().reads(reads).writes([(ms(0), 1_000)]);
    let (mut reader, mut writer) = split(self::stream(RATE, peer));
    let start = Instant::now();
    let read = tokio::spawn(async move {
        let result = reader.read_exact(&mut [0; 3]).await;
        (exceeded(result), start.elapsed())
    });
    for _ in 0..20 {
        sleep(ms(7)).await;
        writer.write_all(b"x").await.unwrap();
    }
    assert_eq!(
        read.await.unwrap(),
        (LimitExceeded::ReadRate(RATE), ms(100))
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_too_slowly_is_cut_off() {
    let start = Instant::now();
    let peer = Scripted::new().writes(every(ms(15), 1_000, 1));
    let mut stream = TimeoutStream::new(peer);
    stream.set_limits(Limits::new().min_write_rate(RATE));
    assert_eq!(stream.limits().min_write_rate, Some(RATE));
    let limit = LimitExceeded::WriteRate(RATE);
    assert_eq!(exceeded(stream.write_all(&[0; 1_000]).await), limit);
    assert_eq!(start.elapsed(), ms(100));

    // By slices too.
    let start = Instant::now();
    let peer = Scripted::new().writes(every(ms(15), 1_000, 1));
    let mut writer = TimeoutStream::new(peer);
    writer.set_limits(Limits::new().min_write_rate(RATE));
    let mut written = 0;
    let result = loop {
        match writer.write_vectored(&[IoSlice::new(b"abc")]).await {
            Ok(bytes) => written += bytes,
            Err(error) => break Err::<(), _>(error),
        }
    };
    assert_eq!(exceeded(result), limit);
    assert_eq!((written, start.elapsed()), (6, ms(100)));
}

/// A buffer takes bytes at once, and its flush has to wait for a peer that is fast enough.
#[tokio::test(start_paused = true)]
async fn a_flush_is_not_held_against_the_rate() {
    let (mut client, server) = duplex(1);
    let mut stream = TimeoutStream::new(BufStream::new(server));
    stream.set_limits(Limits::new().min_write_rate(RATE));
    let client = tokio::spawn(async move {
        while client.read_u8().await.is_ok() {
            sleep(ms(9)).await;
        }
    });
    let start = Instant::now();
    stream.write_all(&[0; 100]).await.unwrap();
    stream.flush().await.unwrap();
    assert!(start.elapsed() > ms(800));
    stream.shutdown().await.unwrap();
    drop(stream);
    client.await.unwrap();
}

/// A write that was abandoned stops to count when a flush is polled.
#[tokio::test(start_paused = true)]
async fn a_flush_stops_the_window_of_an_abandoned_write() {
    let peer = Scripted::new().writes([(secs(10), 1)]).flushes([ms(500)]);
    let mut writer = TimeoutStream::new(peer);
    writer.set_limits(Limits::new().min_write_rate(RATE));
    let start = Instant::now();
    tokio::select! {
        _ = writer.write(b"x") => unreachable!(),
        () = sleep(ms(60)) => {}
    }
    writer.flush().await.unwrap();
    assert_eq!(start.elapsed(), ms(500));
    exceeded(writer.write(b"x").await);
    assert_eq!(start.elapsed(), ms(540));
}

#[tokio::test(start_paused = true)]
async fn one_half_alone_has_a_rate() {
    for rate in [RATE, SILENT] {
        let (reader, writer) = split(Scripted::new().reads(every(ms(15), 1_000, 1)));
        let mut reader = TimeoutStream::new(reader);
        reader.set_limits(Limits::new().min_read_rate(rate));
        let (limit, _) = read_until_exceeded(reader).await;
        assert_eq!(limit, LimitExceeded::ReadRate(rate));
        drop(writer);
    }
    let (reader, writer) = split(Scripted::new().writes(every(ms(15), 1_000, 1)));
    let mut writer = TimeoutStream::new(writer);
    writer.set_limits(Limits::new().min_write_rate(RATE));
    let limit = LimitExceeded::WriteRate(RATE);
    assert_eq!(exceeded(writer.write_all(&[0; 1_000]).await), limit);
    drop(reader);
}

/// Bytes that move by whatever operation of the other direction.
#[tokio::test(start_paused = true)]
async fn any_bytes_of_the_other_direction_close_the_window() {
    let times = [10, 200, 400, 600];
    let lane = || times.map(|at| (ms(at), 1));
    let at_once = || [(ms(0), 4)];
    let reader = || {
        let peer = Scripted::new().reads(lane()).writes(at_once());
        let mut reader = TimeoutStream::new(peer);
        reader.set_limits(Limits::new().min_read_rate(SILENT));
        reader
    };
    let writer = || {
        let peer = Scripted::new().writes(lane()).reads(at_once());
        let mut writer = TimeoutStream::new(BufReader::new(peer));
        writer.set_limits(Limits::new().min_write_rate(SILENT));
        writer
    };

    let mut by_write = reader();
    for _ in times {
        by_write.read_u8().await.unwrap();
        by_write.write_all(b"x").await.unwrap();
    }
    let mut by_slices = reader();
    for _ in times {
        by_slices.read_u8().await.unwrap();
        let slices = [IoSlice::new(b"x")];
        assert_eq!(by_slices.write_vectored(&slices).await.unwrap(), 1);
    }
    let mut by_read = writer();
    for _ in times {
        by_read.write_all(b"x").await.unwrap();
        by_read.read_u8().await.unwrap();
    }
    let mut by_consume = writer();
    for _ in times {
        by_consume.write_all(b"x").await.unwrap();
        by_consume.fill_buf().await.unwrap();
        by_consume.consume(1);
    }

    let mut by_nothing = reader();
    by_nothing.read_exact(&mut [0; 2]).await.unwrap();
    assert_eq!(by_nothing.write(b"").await.unwrap(), 0);
    exceeded(by_nothing.read_u8().await);
}

/// Bytes count once, when they are consumed.
#[tokio::test(start_paused = true)]
async fn buffered_reads_count_what_is_consumed() {
    let limit = LimitExceeded::ReadRate(RATE);
    let inner = || BufReader::new(Scripted::new().reads([(ms(20), 10)]).reads_never());

    let start = Instant::now();
    let mut reader = TimeoutStream::new(inner());
    reader.set_limits(Limits::new().min_read_rate(RATE));
    for _ in 0..3 {
        assert_eq!(reader.fill_buf().await.unwrap().len(), 10);
    }
    reader.consume(9);
    // The last one is read without a look at the buffer.
    reader.read_u8().await.unwrap();
    assert_eq!(exceeded(reader.fill_buf().await), limit);
    assert_eq!(start.elapsed(), ms(120));

    // One byte fewer: the window that opened at the beginning is not met.
    let start = Instant::now();
    let mut stream = TimeoutStream::new(BufStream::new(inner().into_inner()));
    stream.set_limits(Limits::new().min_read_rate(MinRate::new(11, ms(100))));
    assert_eq!(stream.fill_buf().await.unwrap().len(), 10);
    stream.consume(10);
    exceeded(stream.fill_buf().await);
    assert_eq!(start.elapsed(), ms(100));
}

/// Bytes of a buffer are bytes of the other direction for the writes.
#[tokio::test(start_paused = true)]
async fn buffered_reads_close_the_window_of_the_writes() {
    let peer = Scripted::new()
        .reads([(ms(0), 100)])
        .writes([10, 200, 400].map(|at| (ms(at), 1)));
    let mut stream = TimeoutStream::new(BufReader::new(peer));
    stream.set_limits(Limits::new().min_write_rate(SILENT));
    for _ in 0..3 {
        stream.write_all(b"x").await.unwrap();
        stream.fill_buf().await.unwrap();
        stream.consume(1);
    }
}

#[tokio::test(start_paused = true)]
async fn setting_another_rate_opens_a_window() {
    let other = MinRate::new(11, ms(100));
    let mut stream = stream(RATE, Scripted::new().reads([(ms(60), 9)]).reads_never());
    let start = Instant::now();
    stream.read_exact(&mut [0; 9]).await.unwrap();
    stream.set_limits(Limits::new().min_read_rate(other));
    exceeded(stream.read_u8().await);
    assert_eq!(start.elapsed(), ms(160));

    // While a read waits as well.
    tokio::select! {
        _ = stream.read_u8() => unreachable!(),
        () = sleep(ms(60)) => {}
    }
    stream.set_limits(Limits::new().min_read_rate(RATE));
    exceeded(stream.read_u8().await);
    assert_eq!(start.elapsed(), ms(320));

    stream.set_limits(Limits::new());
    assert_eq!(stream.limits().min_read_rate, None);
    let waited = tokio::time::timeout(secs(10), stream.read_u8()).await;
    assert!(waited.is_err());
}

/// A server that sets its limits before each read gives a slow client no more time.
#[tokio::test(start_paused = true)]
async fn setting_the_same_rate_leaves_the_window_open() {
    let limits = Limits::new().min_read_rate(RATE);
    let start = Instant::now();
    let mut stream = stream(RATE, Scripted::new().reads(every(ms(15), 1_000, 1)));
    let error = loop {
        stream.set_limits(limits);
        if let Err(error) = stream.read_u8().await {
            break Err::<(), _>(error);
        }
    };
    assert_eq!(exceeded(error), LimitExceeded::ReadRate(RATE));
    assert_eq!(start.elapsed(), ms(100));

    // Nor while another limit changes, or goes.
    let mut stream = self::stream(RATE, Scripted::new().reads_never());
    for timeout in [Some(secs(1)), Some(secs(2)), None] {
        let mut limits = limits;
        limits.read_timeout = timeout;
        limits.idle_timeout = timeout;
        stream.set_limits(limits);
        tokio::select! {
            _ = stream.read_u8() => unreachable!(),
            () = sleep(ms(30)) => {}
        }
    }
    assert_eq!(
        exceeded(stream.read_u8().await),
        LimitExceeded::ReadRate(RATE)
    );
    assert_eq!(start.elapsed(), ms(200));
}

#[tokio::test(start_paused = true)]
async fn each_direction_has_its_own_rate() {
    let peer = Scripted::new()
        .reads(every(ms(15), 1_000, 1))
        .writes(every(ms(15), 1_000, 2));
    let mut stream = TimeoutStream::new(peer);
    stream.set_limits(Limits::new().min_read_rate(RATE).min_write_rate(RATE));
    let (mut reader, mut writer) = split(stream);
    let start = Instant::now();
    let read = tokio::spawn(async move {
        let result = reader.read_exact(&mut [0; 2_000]).await;
        (exceeded(result), start.elapsed())
    });
    writer.write_all(&[0; 2_000]).await.unwrap();
    let limit = LimitExceeded::ReadRate(RATE);
    assert_eq!(read.await.unwrap(), (limit, ms(100)));
}

#[test]
fn a_rate_of_zero_panics_in_the_callers_frame() {
    let zero_bytes = || MinRate::new(0, secs(1));
    assert_panics(zero_bytes, &["zero bytes"]);
    let no_window = || MinRate::new(1, Duration::ZERO);
    assert_panics(no_window, &["window of a minimum rate is zero"]);
}

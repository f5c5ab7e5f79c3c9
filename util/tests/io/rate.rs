//! The minimum rate: each transition in the table of the module `io`.

use std::io::IoSlice;

use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufStream, duplex, split,
};
use tokio_wheel::{Duration, Instant, sleep};
use tokio_wheel_util::io::{LimitExceeded, Limits, MinRate, TimeoutStream};

use crate::{
    exceeded,
    script::Scripted,
    support::{ms, panics::assert_panics, secs},
};

/// A rate of 10 bytes in 100 ms of waiting.
const RATE: MinRate = MinRate::new(10, ms(100));
const SILENT: MinRate = RATE.allow_silence();

fn stream(rate: MinRate, peer: Scripted) -> TimeoutStream<Scripted> {
    let limits = Limits::new().min_read_rate(rate);
    let stream = TimeoutStream::with_limits(peer, limits);
    assert_eq!(stream.limits().min_read_rate, Some(rate));
    stream
}

/// Returns a timetable with `bytes` at the end of each of `times` periods.
fn every(period: Duration, times: u32, bytes: usize) -> impl Iterator<Item = (Duration, usize)> {
    (1..=times).map(move |n| (n * period, bytes))
}

/// Reads until an error. Returns the exceeded limit and the number of bytes read before.
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
    let limit = LimitExceeded::MinReadRate(RATE);
    assert_eq!(read_until_exceeded(stream).await, (limit, 6));
    assert_eq!(start.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_cut_off_when_the_window_is_over() {
    let start = Instant::now();
    let stream = stream(RATE, Scripted::new().reads([(secs(10), 1)]));
    let limit = LimitExceeded::MinReadRate(RATE);
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

/// The next window opens when the bytes have moved, not at the end of the first window.
#[tokio::test(start_paused = true)]
async fn a_window_that_is_met_opens_the_next() {
    let start = Instant::now();
    let reads = [(ms(20), 9), (ms(50), 1), (ms(149), 9)];
    let stream = stream(RATE, Scripted::new().reads(reads).reads_never());
    let limit = LimitExceeded::MinReadRate(RATE);
    assert_eq!(read_until_exceeded(stream).await, (limit, 19));
    assert_eq!(start.elapsed(), ms(150));
}

/// Surplus bytes do not count for later windows.
#[tokio::test(start_paused = true)]
async fn many_bytes_meet_one_window() {
    let start = Instant::now();
    let reads = [(ms(20), 1_000_000)];
    let stream = stream(RATE, Scripted::new().reads(reads).reads_never());
    let limit = LimitExceeded::MinReadRate(RATE);
    assert_eq!(read_until_exceeded(stream).await, (limit, 1_000_000));
    assert_eq!(start.elapsed(), ms(120));
}

/// The application takes time before the first operation and between operations.
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
    // This byte is ready at once.
    stream.read_u8().await.unwrap();
    assert_eq!(start.elapsed(), ms(3_060));
    sleep(secs(1)).await;
    // The earlier reads have waited for 60 ms.
    let limit = LimitExceeded::MinReadRate(RATE);
    assert_eq!(exceeded(stream.read_u8().await), limit);
    assert_eq!(start.elapsed(), ms(4_100));
}

#[tokio::test(start_paused = true)]
async fn after_the_error_a_window_opens() {
    let start = Instant::now();
    let mut stream = stream(RATE, Scripted::new().reads([(ms(150), 9)]).reads_never());
    let limit = LimitExceeded::MinReadRate(RATE);
    assert_eq!(exceeded(stream.read_u8().await), limit);
    assert_eq!(start.elapsed(), ms(100));
    stream.read_exact(&mut [0; 9]).await.unwrap();
    assert_eq!(exceeded(stream.read_u8().await), limit);
    assert_eq!(start.elapsed(), ms(200));
}

/// The wait of a read that exceeds a timeout counts for the window too.
#[tokio::test(start_paused = true)]
async fn the_window_goes_on_after_the_error_of_another_limit() {
    for rate in [RATE, SILENT] {
        let start = Instant::now();
        let reads = [(ms(5), 1), (ms(110), 1)];
        let mut stream = stream(rate, Scripted::new().reads(reads).reads_never());
        let limits = stream.limits();
        stream.set_limits(limits.read_timeout(ms(60)));
        stream.read_u8().await.unwrap();
        let limit = LimitExceeded::ReadTimeout(ms(60));
        assert_eq!(exceeded(stream.read_u8().await), limit);
        assert_eq!(start.elapsed(), ms(65));
        let limit = LimitExceeded::MinReadRate(rate);
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

/// A read that is ready late returns its bytes. The next read fails.
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
        // Nothing polls the read at the end of the window.
        sleep(ms(200)).await;
        stream.read_u8().await.unwrap();
        let limit = LimitExceeded::MinReadRate(rate);
        let late = start.elapsed();
        assert_eq!(exceeded(stream.read_u8().await), limit);
        assert!(start.elapsed() - late <= ms(1));
    }
}

/// Nothing fails if enough bytes are ready at the late poll.
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
async fn the_timeouts_limit_a_silent_client() {
    let start = Instant::now();
    let reads = [(secs(30), 1), (secs(100), 1)];
    let mut stream = stream(SILENT, Scripted::new().reads(reads));
    let limits = stream.limits();
    stream.set_limits(limits.read_timeout(secs(60)));
    stream.read_u8().await.unwrap();
    let limit = LimitExceeded::ReadTimeout(secs(60));
    assert_eq!(exceeded(stream.read_u8().await), limit);
    assert_eq!(start.elapsed(), secs(90));
}

/// The window opens with the first byte. The first byte after its end decides.
#[tokio::test(start_paused = true)]
async fn a_client_that_dribbles_is_cut_off_though_silence_is_allowed() {
    // With a period of 12 ms, the first byte after the end is the tenth byte. So the peer is just fast enough.
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
                assert_eq!(exceeded(result), LimitExceeded::MinReadRate(SILENT));
                assert_eq!(start.elapsed(), ms(at));
            }
        }
    }
}

/// Bytes that arrive at the exact end are too late.
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
    let limit = LimitExceeded::MinReadRate(SILENT);
    assert_eq!(exceeded(stream.read_u8().await), limit);
    stream.read_exact(&mut [0; 10]).await.unwrap();
}

/// The client sends small requests with long pauses, and the server responds to each request.
#[tokio::test(start_paused = true)]
async fn an_answer_closes_the_window() {
    let (mut client, server) = duplex(64);
    let limits = Limits::new().min_read_rate(SILENT);
    let mut stream = TimeoutStream::with_limits(server, limits);
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

/// Another task responds while a read waits, or the response follows a slow request.
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
    // The last byte was late, but it completed the request.
    stream.write_all(b"x").await.unwrap();
    stream.read_u8().await.unwrap();

    let peer = Scripted::new().reads(reads).writes([(ms(0), 1)]);
    let mut stream = self::stream(SILENT, peer);
    stream.read_exact(&mut [0; 2]).await.unwrap();
    let slices = [IoSlice::new(b"x")];
    assert_eq!(stream.write_vectored(&slices).await.unwrap(), 1);
    stream.read_u8().await.unwrap();
}

/// A flush and a write of 0 bytes close no window. Without silence, a response closes no window either.
#[tokio::test(start_paused = true)]
async fn only_an_answer_closes_the_window() {
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
        (LimitExceeded::MinReadRate(RATE), ms(100))
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_too_slowly_is_cut_off() {
    let start = Instant::now();
    let peer = Scripted::new().writes(every(ms(15), 1_000, 1));
    let limits = Limits::new().min_write_rate(RATE);
    let mut stream = TimeoutStream::with_limits(peer, limits);
    assert_eq!(stream.limits().min_write_rate, Some(RATE));
    let limit = LimitExceeded::MinWriteRate(RATE);
    assert_eq!(exceeded(stream.write_all(&[0; 1_000]).await), limit);
    assert_eq!(start.elapsed(), ms(100));

    // Vectored writes have the same limit.
    let start = Instant::now();
    let peer = Scripted::new().writes(every(ms(15), 1_000, 1));
    let limits = Limits::new().min_write_rate(RATE);
    let mut writer = TimeoutStream::with_limits(peer, limits);
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

/// A buffer accepts bytes immediately. Its flush waits for a peer that is fast enough.
#[tokio::test(start_paused = true)]
async fn the_rate_does_not_measure_a_flush() {
    let (mut client, server) = duplex(1);
    let limits = Limits::new().min_write_rate(RATE);
    let mut stream = TimeoutStream::with_limits(BufStream::new(server), limits);
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

/// A canceled write stops counting at the first poll of a flush.
#[tokio::test(start_paused = true)]
async fn a_flush_pauses_the_window_of_a_canceled_write() {
    let peer = Scripted::new().writes([(secs(10), 1)]).flushes([ms(500)]);
    let limits = Limits::new().min_write_rate(RATE);
    let mut writer = TimeoutStream::with_limits(peer, limits);
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
        let limits = Limits::new().min_read_rate(rate);
        let reader = TimeoutStream::with_limits(reader, limits);
        let (limit, _) = read_until_exceeded(reader).await;
        assert_eq!(limit, LimitExceeded::MinReadRate(rate));
        drop(writer);
    }
    let (reader, writer) = split(Scripted::new().writes(every(ms(15), 1_000, 1)));
    let limits = Limits::new().min_write_rate(RATE);
    let mut writer = TimeoutStream::with_limits(writer, limits);
    let limit = LimitExceeded::MinWriteRate(RATE);
    assert_eq!(exceeded(writer.write_all(&[0; 1_000]).await), limit);
    drop(reader);
}

/// The bytes of every kind of operation close the window.
#[tokio::test(start_paused = true)]
async fn any_bytes_of_the_other_direction_close_the_window() {
    let times = [10, 200, 400, 600];
    let lane = || times.map(|at| (ms(at), 1));
    let at_once = || [(ms(0), 4)];
    let reader = || {
        let peer = Scripted::new().reads(lane()).writes(at_once());
        let limits = Limits::new().min_read_rate(SILENT);
        TimeoutStream::with_limits(peer, limits)
    };
    let writer = || {
        let peer = Scripted::new().writes(lane()).reads(at_once());
        let limits = Limits::new().min_write_rate(SILENT);
        TimeoutStream::with_limits(BufReader::new(peer), limits)
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

/// Bytes count once, when the user consumes them.
#[tokio::test(start_paused = true)]
async fn buffered_reads_count_what_is_consumed() {
    let limit = LimitExceeded::MinReadRate(RATE);
    let inner = || BufReader::new(Scripted::new().reads([(ms(20), 10)]).reads_never());

    let start = Instant::now();
    let limits = Limits::new().min_read_rate(RATE);
    let mut reader = TimeoutStream::with_limits(inner(), limits);
    for _ in 0..3 {
        assert_eq!(reader.fill_buf().await.unwrap().len(), 10);
    }
    reader.consume(9);
    // This read takes the last byte.
    reader.read_u8().await.unwrap();
    assert_eq!(exceeded(reader.fill_buf().await), limit);
    assert_eq!(start.elapsed(), ms(120));

    // The rate requires one more byte than the peer sends, so the first window fails.
    let start = Instant::now();
    let limits = Limits::new().min_read_rate(MinRate::new(11, ms(100)));
    let mut stream = TimeoutStream::with_limits(BufStream::new(inner().into_inner()), limits);
    assert_eq!(stream.fill_buf().await.unwrap().len(), 10);
    stream.consume(10);
    exceeded(stream.fill_buf().await);
    assert_eq!(start.elapsed(), ms(100));
}

/// For the writes, the bytes of a buffered reader belong to the other direction.
#[tokio::test(start_paused = true)]
async fn buffered_reads_close_the_window_of_the_writes() {
    let peer = Scripted::new()
        .reads([(ms(0), 100)])
        .writes([10, 200, 400].map(|at| (ms(at), 1)));
    let limits = Limits::new().min_write_rate(SILENT);
    let mut stream = TimeoutStream::with_limits(BufReader::new(peer), limits);
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

    // A change also opens a window while a read waits.
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

/// A slow client gains no time if the server sets its limits before each read.
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
    assert_eq!(exceeded(error), LimitExceeded::MinReadRate(RATE));
    assert_eq!(start.elapsed(), ms(100));

    // A change of another limit leaves the window open too.
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
        LimitExceeded::MinReadRate(RATE)
    );
    assert_eq!(start.elapsed(), ms(200));
}

#[tokio::test(start_paused = true)]
async fn each_direction_has_its_own_rate() {
    let peer = Scripted::new()
        .reads(every(ms(15), 1_000, 1))
        .writes(every(ms(15), 1_000, 2));
    let limits = Limits::new().min_read_rate(RATE).min_write_rate(RATE);
    let stream = TimeoutStream::with_limits(peer, limits);
    let (mut reader, mut writer) = split(stream);
    let start = Instant::now();
    let read = tokio::spawn(async move {
        let result = reader.read_exact(&mut [0; 2_000]).await;
        (exceeded(result), start.elapsed())
    });
    writer.write_all(&[0; 2_000]).await.unwrap();
    let limit = LimitExceeded::MinReadRate(RATE);
    assert_eq!(read.await.unwrap(), (limit, ms(100)));
}

#[test]
fn a_rate_of_zero_panics_in_the_callers_frame() {
    let zero_bytes = || MinRate::new(0, secs(1));
    assert_panics(
        zero_bytes,
        &["bytes of a minimum rate must be at least 1, got 0"],
    );
    let no_window = || MinRate::new(1, Duration::ZERO);
    assert_panics(
        no_window,
        &["window of a minimum rate must be longer than 0 ns"],
    );
}

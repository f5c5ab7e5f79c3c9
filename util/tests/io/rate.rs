//! The minimum rate: examples, and operations that `oracle` does not have.

use super::*;

/// A rate of 10 bytes in 100 ms of waiting.
const RATE: MinRate = MinRate::new(10, ms(100));
const SILENT: MinRate = RATE.allow_silence();

fn stream(rate: MinRate, peer: Scripted) -> TimeoutStream<Scripted> {
    let limits = Limits::new().min_read_rate(rate);
    let stream = TimeoutStream::with_limits(peer, limits);
    assert_eq!(stream.limits(), limits);
    stream
}

/// Returns a timetable with `bytes` at the end of each of `times` periods.
fn every(period: Duration, times: u32, bytes: usize) -> impl Iterator<Item = (Duration, usize)> {
    (1..=times).map(move |n| (n * period, bytes))
}

/// A read that is polled late returns its bytes. Then the next read fails, unless the bytes meet the window.
#[tokio::test(start_paused = true)]
async fn bytes_that_come_too_late_are_not_lost() {
    for (rate, late, is_met) in [
        (RATE, 1, false),
        (RATE, 9, true),
        (SILENT, 1, false),
        (SILENT, 9, true),
    ] {
        let reads = [(ms(5), 1), (ms(130), late), (ms(240), 10)];
        let mut stream = stream(rate, Scripted::new().reads(reads));
        stream.read_u8().await.unwrap();
        tokio::select! {
            biased;
            _ = stream.read_u8() => unreachable!(),
            () = sleep(ms(1)) => {}
        }
        // Nothing polls the read at the end of the window.
        sleep(ms(200)).await;
        stream.read_exact(&mut vec![0; late]).await.unwrap();
        let result = stream.read_u8().await;
        assert_eq!(result.is_ok(), is_met);
        if !is_met {
            assert_eq!(exceeded(result), LimitExceeded::MinReadRate(rate));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn vectored_writes_are_limited() {
    let limit = LimitExceeded::MinWriteRate(RATE);
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

/// A write after a canceled flush has its whole window. A flush after a canceled write counts for the window.
#[tokio::test(start_paused = true)]
async fn a_flush_and_a_write_that_follow_each_other_share_a_wait() {
    let peer = Scripted::new().writes([(secs(10), 1)]).flushes([ms(500)]);
    let limits = Limits::new().min_write_rate(RATE);
    let mut writer = TimeoutStream::with_limits(peer, limits);
    let start = Instant::now();
    tokio::select! {
        _ = writer.flush() => unreachable!(),
        () = sleep(ms(60)) => {}
    }
    exceeded(writer.write(b"x").await);
    assert_eq!(start.elapsed(), ms(160));

    tokio::select! {
        _ = writer.write(b"x") => unreachable!(),
        () = sleep(ms(40)) => {}
    }
    writer.flush().await.unwrap();
    assert_eq!(start.elapsed(), ms(500));
    exceeded(writer.write(b"x").await);
    assert_eq!(start.elapsed(), ms(500));
}

/// `oracle` has reads and plain writes. An operation that moves no byte does not close the window.
#[tokio::test(start_paused = true)]
async fn any_bytes_of_the_other_direction_close_the_window() {
    let reader = || {
        let reads = [10, 200, 400, 600].map(|at| (ms(at), 1));
        let peer = Scripted::new().reads(reads).writes([(ms(0), 4)]);
        TimeoutStream::with_limits(peer, Limits::new().min_read_rate(SILENT))
    };
    let mut stream = reader();
    for _ in 0..4 {
        stream.read_u8().await.unwrap();
        let written = stream.write_vectored(&[IoSlice::new(b"x")]).await;
        assert_eq!(written.unwrap(), 1);
    }
    let mut by_nothing = reader();
    by_nothing.read_exact(&mut [0; 2]).await.unwrap();
    by_nothing.flush().await.unwrap();
    assert_eq!(by_nothing.write(b"").await.unwrap(), 0);
    exceeded(by_nothing.read_u8().await);
}

#[test]
fn a_rate_of_zero_panics_in_the_callers_frame() {
    let bytes = ["bytes of a minimum rate must be at least 1, got 0"];
    assert_panics(|| MinRate::new(0, secs(1)), &bytes);
    let window = ["window of a minimum rate must be longer than 0 ns"];
    assert_panics(|| MinRate::new(1, Duration::ZERO), &window);
}

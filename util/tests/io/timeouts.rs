//! Timeouts, beyond the features of `tokio-io-timeout`.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_error_says_which_limit_it_was() {
    let (five, rate) = (secs(5), MinRate::new(500, secs(10)));
    let none = Limits::new();
    let reads = [
        (none.read_timeout(five), "no read completed within 5s"),
        (none.idle_timeout(five), "idle for 5s"),
        (none.min_read_rate(rate), "fewer than 500 bytes read in 10s"),
    ];
    let writes = [
        (none.write_timeout(five), "no write completed within 5s"),
        (none.idle_timeout(five), "idle for 5s"),
        (
            none.min_write_rate(rate),
            "fewer than 500 bytes written in 10s",
        ),
    ];
    let (_client, server) = duplex(4);
    let mut stream = TimeoutStream::new(server);
    stream.write_all(b"full").await.unwrap();
    for (limits, text) in reads {
        stream.set_limits(limits);
        assert_eq!(exceeded(stream.read_u8().await).to_string(), text);
    }
    for (limits, text) in writes {
        stream.set_limits(limits);
        assert_eq!(exceeded(stream.write(b"x").await).to_string(), text);
    }
}

/// A late task finds that it has exceeded all limits.
#[tokio::test(start_paused = true)]
async fn the_error_names_the_limit_that_was_first() {
    let rate = MinRate::new(1, ms(30));
    let limits = [
        (10, 20, LimitExceeded::ReadTimeout(ms(10))),
        (10, 10, LimitExceeded::ReadTimeout(ms(10))),
        (20, 10, LimitExceeded::IdleTimeout(ms(10))),
        (40, 50, LimitExceeded::MinReadRate(rate)),
    ];
    for (timeout, idle, first) in limits {
        let (_client, server) = duplex(4);
        let mut stream = TimeoutStream::new(server);
        let limits = Limits::new().read_timeout(ms(timeout)).min_read_rate(rate);
        stream.set_limits(limits.idle_timeout(ms(idle)));
        let mut read = task::spawn(stream.read_u8());
        assert_pending!(read.poll());
        advance(secs(1)).await;
        let error = assert_ready_err!(read.poll());
        assert_eq!(error.downcast::<LimitExceeded>().unwrap(), first);
    }
}

/// A late poll still returns the bytes.
#[tokio::test(start_paused = true)]
async fn bytes_win_over_an_exceeded_limit() {
    let (mut client, server) = duplex(4);
    let mut stream = TimeoutStream::new(server);
    let limits = Limits::new().read_timeout(ms(10)).idle_timeout(ms(10));
    stream.set_limits(limits.min_read_rate(MinRate::new(1, ms(10))));
    let mut read = task::spawn(stream.read_u8());
    assert_pending!(read.poll());
    advance(secs(1)).await;
    client.write_all(b"x").await.unwrap();
    assert_eq!(read.await.unwrap(), b'x');
}

/// The timeouts of the direction start again, but a window whose rate is the same continues. Equal limits, and limits of
/// the other direction, restart nothing.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_set_restarts_the_timeouts_of_its_direction() {
    const SLOW: MinRate = MinRate::new(1, ms(50));
    const LIMITS: Limits = Limits::new()
        .read_timeout(ms(28))
        .idle_timeout(ms(29))
        .min_read_rate(SLOW);
    let cases = [
        ([LIMITS, LIMITS.write_timeout(ms(1))], ms(28)),
        ([LIMITS.read_timeout(ms(10)); 2], ms(16)),
        ([LIMITS.idle_timeout(ms(10)); 2], ms(16)),
        ([11, 10].map(|limit| LIMITS.idle_timeout(ms(limit))), ms(22)),
        ([LIMITS.min_read_rate(SLOW.allow_silence()); 2], ms(34)),
        ([Limits::new().min_read_rate(SLOW), LIMITS], ms(40)),
        (
            [LIMITS.read_timeout(ms(99)).idle_timeout(ms(99)); 2],
            ms(50),
        ),
    ];
    for (changes, expected) in cases {
        let (_client, server) = duplex(4);
        let mut stream = TimeoutStream::with_limits(server, LIMITS);
        let start = Instant::now();
        for limits in changes {
            tokio::select! {
                _ = stream.read_u8() => unreachable!(),
                () = sleep(ms(6)) => {}
            }
            stream.set_limits(limits);
        }
        assert!(stream.read_u8().await.is_err());
        assert_eq!(start.elapsed(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_durations_saturate() {
    let (mut client, server) = duplex(4);
    let mut stream = TimeoutStream::new(server);
    let rate = MinRate::new(usize::MAX, Duration::MAX);
    assert_eq!(rate.bytes(), u32::MAX as usize);
    assert_eq!(rate.window(), Duration::from_nanos(u64::MAX));
    let rates = Limits::new()
        .min_read_rate(rate)
        .min_write_rate(rate.allow_silence());
    let endless = rates
        .read_timeout(Duration::MAX)
        .write_timeout(Duration::MAX)
        .idle_timeout(Duration::MAX);
    stream.set_limits(endless);
    assert_eq!(stream.limits(), rates);
    let centuries = secs(500 * 365 * 86_400);
    let longest = rates.read_timeout(centuries).idle_timeout(centuries);
    stream.set_limits(longest);
    assert_eq!(stream.limits(), longest);
    for _ in 0..3 {
        let (written, ()) = tokio::join!(stream.read_u8(), async {
            sleep(secs(86_400 * 365)).await;
            client.write_all(b"x").await.unwrap();
        });
        assert_eq!(written.unwrap(), b'x');
    }
    let (written, _) = tokio::join!(stream.write_all(b"abcdefgh"), async {
        sleep(secs(86_400 * 365)).await;
        client.read_exact(&mut [0; 8]).await
    });
    written.unwrap();
}

/// An endless loop of failing operations lets the other tasks run.
#[test]
fn failures_use_the_budget_of_the_task() {
    let done = crate::support::does_not_hang(|| {
        current_thread().block_on(async {
            let (_client, server) = duplex(4);
            let limits = Limits::new().read_timeout(Duration::ZERO);
            let mut reader = TimeoutStream::with_limits(server, limits);
            let trying = tokio::spawn(async move {
                loop {
                    assert!(reader.read_u8().await.is_err());
                }
            });
            tokio::time::sleep(ms(5)).await;
            trying.abort();
            true
        })
    });
    assert!(done);
}

/// A stream with an explicit timer may be polled outside a runtime.
#[test]
fn an_explicit_timer_needs_no_current_runtime() {
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
    let (_client, server) = duplex(4);
    let mut stream = TimeoutStream::with_timer(server, &timer);
    stream.set_limits(Limits::new().read_timeout(ms(5)).write_timeout(ms(5)));
    let start = std::time::Instant::now();
    let (done, is_done) = tokio::sync::oneshot::channel::<()>();
    let driver = std::thread::spawn(move || runtime.block_on(is_done));
    tokio_test::block_on(async {
        exceeded(stream.read_u8().await);
        exceeded(stream.write_all(b"abcde").await);
    });
    assert!(start.elapsed() >= ms(10));
    assert_eq!(timer.metrics().fired(), 2);
    done.send(()).unwrap();
    driver.join().unwrap().unwrap();
}

/// Each limit ends its operation, although the task never has budget when it polls.
#[tokio::test(start_paused = true)]
async fn limits_beside_a_greedy_sibling_end() {
    let rate = MinRate::new(1_000, ms(10));
    let limits = [
        Limits::new().read_timeout(ms(10)).write_timeout(ms(10)),
        Limits::new().idle_timeout(ms(10)),
        Limits::new().min_read_rate(rate).min_write_rate(rate),
    ];
    for limits in limits {
        let (_client, server) = duplex(4);
        let mut stream = TimeoutStream::with_limits(server, limits);
        stream.write_all(b"full").await.unwrap();
        for _ in 0..3 {
            exceeded(beside_a_greedy_sibling(stream.read_u8()).await);
            exceeded(beside_a_greedy_sibling(stream.write_u8(7)).await);
        }
    }
}

/// The other direction of the stream waits too, in the same task.
#[tokio::test(start_paused = true)]
async fn both_directions_beside_a_greedy_sibling_end() {
    let (_client, server) = duplex(4);
    let limits = Limits::new().read_timeout(ms(10)).write_timeout(ms(15));
    let mut stream = TimeoutStream::with_limits(server, limits);
    stream.write_all(b"full").await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let both = async { futures_util::join!(reader.read_u8(), writer.write_u8(7)) };
    let (read, wrote) = beside_a_greedy_sibling(both).await;
    assert_eq!(exceeded(read), LimitExceeded::ReadTimeout(ms(10)));
    assert_eq!(exceeded(wrote), LimitExceeded::WriteTimeout(ms(15)));
}

/// A loop over operations that fail at once lets the other tasks run, also beside a sibling that uses up the budget.
#[test]
fn failures_beside_a_greedy_sibling_let_others_run() {
    crate::support::does_not_hang(|| {
        current_thread().block_on(async {
            let (_client, server) = duplex(4);
            let limits = Limits::new().read_timeout(Duration::ZERO);
            let mut reader = TimeoutStream::with_limits(server, limits);
            let fails = async {
                loop {
                    assert!(reader.read_u8().await.is_err());
                }
            };
            let mut fails = Box::pin(fails);
            let mut polls = 0;
            poll_fn(|cx| {
                while coop::has_budget_remaining() {
                    let _ = pin!(coop::consume_budget()).poll(cx);
                }
                assert!(fails.as_mut().poll(cx).is_pending());
                polls += 1;
                if polls < 100 {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
            .await;
        });
    });
}

/// A stream of the default timer uses the runtime that polls it. Its entry in an earlier runtime may be pending or fired.
#[test]
fn a_stream_may_move_to_another_runtime() {
    let (_client, server) = duplex(4);
    let limits = Limits::new().read_timeout(ms(10));
    let mut reader = TimeoutStream::with_limits(server, limits);
    for waits in [true, false, false] {
        paused().block_on(async {
            let mut read = pin!(reader.read_u8());
            if waits {
                assert!(poll_once(&mut read).await.is_pending());
                return;
            }
            assert!(read.await.is_err());
        });
    }
}

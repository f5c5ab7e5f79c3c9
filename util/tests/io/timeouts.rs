//! Timeouts, beyond the features of `tokio-io-timeout`.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_error_says_which_limit_it_was() {
    let (five, rate) = (secs(5), MinRate::new(500, secs(10)));
    let none = Limits::new();
    let (_client, server) = duplex(4);
    let mut stream = TimeoutStream::new(server);
    stream.write_all(b"full").await.unwrap();
    for (limits, of_read, of_write) in [
        (
            none.read_timeout(five).write_timeout(five),
            "no read completed within 5s",
            "no write completed within 5s",
        ),
        (none.idle_timeout(five), "idle for 5s", "idle for 5s"),
        (
            none.min_read_rate(rate).min_write_rate(rate),
            "fewer than 500 bytes read in 10s",
            "fewer than 500 bytes written in 10s",
        ),
    ] {
        stream.set_limits(limits);
        assert_eq!(exceeded(stream.read_u8().await).to_string(), of_read);
        assert_eq!(exceeded(stream.write(b"x").await).to_string(), of_write);
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

/// A window whose rate is the same continues. Equal limits, and limits of the other direction, restart nothing.
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
    let rates = Limits::new().min_read_rate(rate);
    let rates = rates.min_write_rate(rate.allow_silence());
    let endless = rates
        .read_timeout(Duration::MAX)
        .write_timeout(Duration::MAX);
    stream.set_limits(endless.idle_timeout(Duration::MAX));
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
        for is_greedy in [false, true] {
            current_thread().block_on(async {
                let (_client, server) = duplex(4);
                let limits = Limits::new().read_timeout(Duration::ZERO);
                let mut reader = TimeoutStream::with_limits(server, limits);
                let mut fails = pin!(async {
                    loop {
                        assert!(reader.read_u8().await.is_err());
                    }
                });
                let mut polls = 0..100;
                poll_fn(|cx| {
                    while is_greedy && coop::has_budget_remaining() {
                        let _ = pin!(coop::consume_budget()).poll(cx);
                    }
                    let pending = fails.as_mut().poll(cx);
                    assert!(pending.is_pending());
                    polls.next().map_or(Poll::Ready(()), |_| pending)
                })
                .await;
            });
        }
    });
}

const IDLE: LimitExceeded = LimitExceeded::IdleTimeout(ms(30));

const NEVER: Duration = secs(86_400);

fn idle(peer: Scripted) -> TimeoutStream<Scripted> {
    TimeoutStream::with_limits(peer, Limits::new().idle_timeout(ms(30)))
}

/// The idle timeout limits every operation. `oracle` has reads and writes.
#[tokio::test(start_paused = true)]
async fn every_operation_is_limited() {
    let mut stream = idle(Scripted::new().flushes([NEVER]));
    let start = Instant::now();
    assert_eq!(exceeded(stream.flush().await), IDLE);
    assert_eq!(start.elapsed(), ms(30));
    assert_eq!(exceeded(stream.shutdown().await), IDLE);
    assert_eq!(start.elapsed(), ms(60));
    stream.set_limits(Limits::new());
    stream.flush().await.unwrap();
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

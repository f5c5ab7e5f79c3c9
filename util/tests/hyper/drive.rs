//! Tests the limits of a connection: idle time, age and grace, and that a connection lets other tasks run.

use super::*;

fn idle() -> Limits {
    Limits::new().idle(secs(10))
}

fn aged(secs: u64) -> Limits {
    Limits::new().max_age(self::secs(secs)).jitter(0.0)
}

#[test]
fn the_idle_limit_counts_from_the_end_of_the_last_request() {
    each(async |protocol| {
        let server = Server::new(protocol, idle());
        let (mut client, end) = server.client().await;
        for (pause, path) in [
            (9_999, "/after/0"),
            (1, "/after/35000"),
            (9_000, "/after/0"),
        ] {
            sleep(ms(pause)).await;
            assert_eq!(client.get(path).await.unwrap(), 4);
        }
        // A body that pauses for longer than the limit.
        assert_eq!(client.get("/frames/5/12000").await.unwrap(), 20);
        let expected = quiet(Reason::Idle, ms(10_000 + 35_000 + 9_000 + 60_000 + 10_000));
        assert_eq!(end.await.unwrap(), expected);
        assert!(client.get("/after/0").await.is_err());
    });
}

/// A limit of zero closes a connection without a request at once. It still serves a request that the client has sent.
#[test]
fn a_limit_of_zero_serves_what_is_there() {
    each_that(Protocol::is_http1, async |protocol| {
        let server = Server::new(protocol, Limits::new().idle(secs(0)));
        let (mut client, end) = server.connect();
        send(&mut client, "/after/100").await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert_eq!(end.await.unwrap(), quiet(Reason::Idle, ms(100)));
    });
}

/// Other work of the task uses up its budget in the first polls after the limit, so the connection reads nothing then.
#[test]
fn a_request_counts_though_the_budget_is_spent() {
    paused().block_on(async {
        let start = Instant::now();
        let limit = secs(10);
        let (mut client, mut drive) = Server::new(Http1, Limits::new().idle(limit)).drive();
        let mut polls = 0;
        tokio::spawn(poll_fn(move |cx| {
            polls += u32::from(start.elapsed() >= limit);
            while (1..30).contains(&polls) && coop::has_budget_remaining() {
                let _ = pin!(coop::consume_budget()).poll(cx);
            }
            drive.as_mut().poll(cx)
        }));
        // This task runs in the same instant as the `Drive`, and before it.
        let answer = tokio::spawn(async move {
            sleep_until(start + limit).await;
            send(&mut client, "/after/0").await;
            let mut answer = [0; 12];
            client.read_exact(&mut answer).await.unwrap();
            answer
        });
        assert_eq!(&answer.await.unwrap(), b"HTTP/1.1 200");
    });
}

/// Other work of the task uses up its budget in every poll.
#[test]
fn the_limit_ends_a_connection_whose_budget_is_always_spent() {
    paused().block_on(async {
        let (_client, drive) = Server::new(Http1, Limits::new().idle(ms(100))).drive();
        let end = beside_a_greedy_sibling(drive).await;
        assert_eq!((end.reason, end.is_cut), (Reason::Idle, false));
    });
}

/// Clients that connect at the same time leave at different times. No client stays longer than the maximum age.
#[test]
fn a_herd_is_spread() {
    const HERD: usize = 1_000;
    for (jitter, from) in [(None, 90_000), (Some(0.5), 50_000), (Some(1.0), 0)] {
        paused().block_on(async {
            let mut limits = Limits::new().max_age(secs(100));
            if let Some(jitter) = jitter {
                limits = limits.jitter(jitter);
            }
            let server = Server::new(Http1, limits);
            let herd: Vec<_> = (0..HERD).map(|_| server.connect()).collect();
            let mut buckets = [0; 10];
            for (_client, end) in herd {
                let end = end.await.unwrap();
                assert_eq!(end.reason, Reason::MaxAge);
                let millis = end.age.as_millis() as usize;
                // Ages round up to a millisecond.
                assert!((from..=100_000).contains(&millis), "{millis} ms");
                buckets[((millis - from) * 10 / (100_001 - from)).min(9)] += 1;
            }
            // Each bucket has 100 on average, with a standard deviation of less than 10.
            let is_even = buckets.iter().all(|bucket| (30..=170).contains(bucket));
            assert!(is_even, "{buckets:?}");
        });
    }
}

/// The default grace is 30 s. A grace of zero cuts at once, and an endless grace never.
#[test]
fn nothing_is_lost_within_the_grace_and_what_takes_longer_is_cut() {
    let is_cut = |age| (None, cut(Reason::MaxAge, 1, secs(age)));
    let is_quiet = |length, age| (Some(length), quiet(Reason::MaxAge, age));
    let limits = aged(10).grace(secs(5));
    each(async |protocol| {
        for (limits, path, (length, expected)) in [
            (aged(10), "/after/60000", is_cut(40)),
            (aged(10).grace(secs(0)), "/after/60000", is_cut(10)),
            (limits.clone(), "/frames/15/999", is_quiet(60, ms(14_985))),
            (limits.clone(), "/frames/16/999", is_cut(15)),
            (
                limits.clone().grace(Duration::MAX),
                "/after/3000000000",
                is_quiet(4, secs(3_000_000)),
            ),
        ] {
            let server = Server::new(protocol, limits);
            let (mut client, end) = server.client().await;
            assert_eq!(client.get(path).await.ok(), length);
            assert_eq!(end.await.unwrap(), expected);
        }
    });
}

#[test]
fn a_handler_lets_other_tasks_run_when_its_connection_shuts_down() {
    paused().block_on(async {
        let server = Server::new(Http1, Limits::new());
        let (mut client, end) = server.connect();
        send(&mut client, "/busy").await;
        settle().await;
        let shutdown = tokio::spawn(async move { server.connections.shutdown().await });
        let mut turns = 0;
        while !end.is_finished() {
            turns += 1;
            yield_now().await;
        }
        assert!(turns > 100, "only {turns} turns");
        assert_eq!(end.await.unwrap().reason, Reason::Shutdown);
        shutdown.await.unwrap();
    });
}

/// A client that sends frames of an unknown type faster than the server can read them. HTTP/2 ignores such frames.
struct Flood {
    sent: Vec<u8>,
    reads: Arc<AtomicUsize>,
}

impl AsyncRead for Flood {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let unit = ready!(coop::poll_proceed(cx));
        unit.made_progress();
        if self.reads.fetch_add(1, Relaxed) >= 20_000 {
            return Poll::Pending;
        }
        while self.sent.len() < buf.remaining() {
            self.sent.extend([0, 0, 0, 0xfa, 0, 0, 0, 0, 0]);
        }
        let rest = self.sent.split_off(buf.remaining());
        buf.put_slice(&self.sent);
        self.sent = rest;
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_flood_of_frames_lets_other_tasks_run() {
    paused().block_on(async {
        let server = Server::new(Http2, Limits::new().idle(secs(0)).grace(secs(0)));
        let reads = Arc::<AtomicUsize>::default();
        let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        sent.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let flood = Flood {
            sent,
            reads: reads.clone(),
        };
        let end = server.serve(tokio::io::join(flood, tokio::io::sink()));
        let mut before = 0;
        while !end.is_finished() {
            yield_now().await;
            let in_a_row = reads.load(Relaxed) - before;
            assert!(in_a_row < 1_000, "{in_a_row} reads in a row");
            before += in_a_row;
        }
    });
}

//! Tests the handle of all connections: how many may be open, the pressure, and the shutdown.

use proptest::prelude::*;

use super::*;

/// Limits that are out of range panic in the code of the caller.
#[test]
fn limits_are_checked() {
    let new = Limits::new;
    let jitter = "jitter must be between 0 and 1, got ";
    assert_panics(|| new().jitter(1.5), &[jitter, "1.5"]);
    assert_panics(|| new().jitter(f64::NAN), &[jitter, "NaN"]);
    let none = "max_connections must be at least 1, got 0";
    assert_panics(|| new().max_connections(0), &[none]);
    let inverted = new().min_idle(secs(61)).idle(secs(60));
    let expected = ["min_idle must be at most idle (60s), got 61s"];
    assert_panics(|| Connections::new(inverted), &expected);
}

/// Returns limits whose idle limit is `60 - n` seconds at a pressure of `n / 50`.
fn pressed() -> Limits {
    Limits::new().idle(secs(60)).min_idle(secs(10))
}

/// The pressure cuts no request, and changes neither the maximum age nor the grace.
#[test]
fn pressure_changes_only_the_idle_limit() {
    each(async |protocol| {
        let limits = pressed().max_age(secs(50)).jitter(0.0).grace(secs(20));
        let server = Server::new(protocol, limits);
        let (mut client, idle_end) = server.client().await;
        let (mut busy, busy_end) = server.client().await;
        let answer = tokio::spawn(async move { busy.get("/after/100000").await });
        let presses = async {
            for n in 0..30 {
                sleep(secs(1)).await;
                server.connections.set_pressure(f64::from(n % 3) / 2.0);
            }
            server.connections.set_pressure(1.0);
        };
        let (length, ()) = tokio::join!(client.get("/frames/10/3500"), presses);
        assert_eq!(length.unwrap(), 40);
        assert_eq!(idle_end.await.unwrap(), quiet(Reason::Idle, secs(45)));
        assert!(answer.await.unwrap().is_err());
        assert_eq!(busy_end.await.unwrap(), cut(Reason::MaxAge, 1, secs(70)));
    });
}

/// The connection is open when the pressure changes. A pressure out of range is clamped, and NaN is 0.
#[test]
fn each_pressure_has_its_idle_limit() {
    let idle = |limit| Limits::new().idle(limit);
    for (limits, pressure, age) in [
        (pressed(), -1.0, Some(60)),
        (pressed(), f64::NAN, Some(60)),
        (pressed(), f64::NEG_INFINITY, Some(60)),
        (pressed(), 7.0, Some(10)),
        (pressed(), f64::INFINITY, Some(10)),
        (idle(secs(60)), 1.0, Some(60)),
        (Limits::new().min_idle(secs(60)), 1.0, None),
        // A server may have an idle limit only under pressure.
        (idle(Duration::MAX).min_idle(secs(10)), 0.0, None),
        (idle(Duration::MAX).min_idle(secs(10)), 1.0, Some(10)),
    ] {
        paused().block_on(async {
            let server = Server::new(Http1, limits.clone());
            let (_client, end) = server.connect();
            server.connections.set_pressure(pressure);
            // The limits stay in force without a handle.
            drop(server);
            let end = tokio::time::timeout(secs(100_000), end).await.ok();
            let expected = age.map(|age| quiet(Reason::Idle, secs(age)));
            assert_eq!(end.map(Result::unwrap), expected, "{limits:?}, {pressure}");
        });
    }
}

#[derive(Clone, Debug)]
enum Act {
    Wait(u64),
    Press(u32),
    Open,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (1..1_500_u64).prop_map(|n| Act::Wait(10 * n)),
        (0..=50_u32).prop_map(Act::Press),
        Just(Act::Open),
    ];
    prop::collection::vec(act, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Each change of the pressure changes the idle limit.
    #[test]
    fn deadlines_are_exact(acts in acts(), age in 20..90_u64) {
        paused().block_on(async {
            let limits = pressed().max_age(secs(age)).jitter(0.0);
            let server = Server::new(Http1, limits);
            let start = Instant::now();
            // The instants at which the limit changes, and the new limits, in milliseconds.
            let mut now = 0;
            let mut changes = vec![(0, 60_000)];
            let mut opened = Vec::new();
            for act in acts {
                match act {
                    Act::Wait(millis) => {
                        now += millis;
                        sleep_until(start + ms(now)).await;
                    }
                    Act::Press(n) => {
                        // This instant is never a deadline, which could come before or after the new pressure.
                        sleep_until(start + ms(now + 7)).await;
                        server.connections.set_pressure(f64::from(n) / 50.0);
                        changes.push((now + 7, 60_000 - 1_000 * u64::from(n)));
                        now += 10;
                        sleep_until(start + ms(now)).await;
                    }
                    Act::Open => opened.push((now, server.connect())),
                }
            }
            for (opened, (_client, end)) in opened {
                // A limit ends the connection if its deadline comes before the next change of the limit.
                let mut expected = u64::MAX;
                for (n, (from, limit)) in changes.iter().enumerate() {
                    let next = changes.get(n + 1).map_or(u64::MAX, |change| change.0);
                    let reached = (opened + limit).max(*from);
                    if next > opened && reached < next {
                        expected = reached;
                        break;
                    }
                }
                let of_age = opened + age * 1_000;
                let reason = if of_age <= expected { Reason::MaxAge } else { Reason::Idle };
                let end = end.await.unwrap();
                let expected = ms(expected.min(of_age) - opened);
                assert_eq!((end.age, end.reason), (expected, reason));
            }
        });
    }
}

#[test]
fn a_shutdown_ends_idle_connections_at_once_and_busy_ones_with_their_answer() {
    each(async |protocol| {
        let server = Server::new(protocol, Limits::new());
        let (mut idle, idle_end) = server.client().await;
        idle.get("/after/0").await.unwrap();
        let (mut busy, busy_end) = server.client().await;
        let answer = tokio::spawn(async move { busy.get("/frames/5/1000").await });
        let (_silent, silent_end) = server.connect();
        sleep(secs(2)).await;

        let start = Instant::now();
        server.connections.shutdown().await;
        // The client of HTTP/2 never sends its preface, so only the grace ends the connection.
        let took = if protocol == Http2 { 30 } else { 3 };
        assert_eq!(start.elapsed(), secs(took));
        assert_eq!(answer.await.unwrap().unwrap(), 20);
        assert_eq!(idle_end.await.unwrap(), quiet(Reason::Shutdown, secs(2)));
        assert_eq!(busy_end.await.unwrap(), quiet(Reason::Shutdown, secs(5)));
        let mut of_silent = quiet(Reason::Shutdown, secs(2));
        match protocol {
            Http2 => of_silent = cut(Reason::Shutdown, 0, secs(32)),
            Auto1 | Auto1Upgrades => of_silent.is_ok = false,
            _ => {}
        }
        assert_eq!(silent_end.await.unwrap(), of_silent);

        let counts = server.connections.counts();
        assert_eq!((counts.open(), counts.ended(Reason::Shutdown)), (0, 3));
        assert_eq!(server.connections.open().unwrap_err(), OpenError::Shutdown);
    });
}

/// The shutdown cuts a connection after its grace, but does not extend a grace that has begun.
#[test]
fn a_shutdown_gives_each_connection_one_grace() {
    each(async |protocol| {
        let limits = Limits::new().max_age(secs(10)).jitter(0.0).grace(secs(10));
        let server = Server::new(protocol, limits);
        let (mut old, old_end) = server.client().await;
        let lost = tokio::spawn(async move { old.get("/after/30000").await });
        sleep(secs(9)).await;
        let (mut young, young_end) = server.client().await;
        let also_lost = tokio::spawn(async move { young.get("/after/30000").await });
        sleep(secs(6)).await;
        server.connections.shutdown().await;
        assert!(lost.await.unwrap().is_err() && also_lost.await.unwrap().is_err());
        assert_eq!(old_end.await.unwrap(), cut(Reason::MaxAge, 1, secs(20)));
        assert_eq!(young_end.await.unwrap(), cut(Reason::Shutdown, 1, secs(16)));
    });
}

#[test]
fn a_shutdown_goes_on_when_its_future_is_dropped() {
    each(async |protocol| {
        let server = Server::new(protocol, Limits::new());
        let connections = &server.connections;
        let (mut client, end) = server.client().await;
        let answer = tokio::spawn(async move { client.get("/after/5000").await });
        settle().await;
        drop(connections.shutdown());
        // This connection is driven after the shutdown has begun.
        let (_client, later) = server.drive();
        let mut shutdown = Box::pin(connections.shutdown());
        assert!(poll_once(&mut shutdown).await.is_pending());
        drop(shutdown);
        assert!(connections.open().is_err());
        let later = tokio::spawn(later);
        assert_eq!(end.await.unwrap(), quiet(Reason::Shutdown, secs(5)));
        assert!(answer.await.unwrap().is_ok());
        assert_eq!(later.await.unwrap().reason, Reason::Shutdown);
        tokio::join!(connections.shutdown(), connections.shutdown());
        connections.shutdown().await;
    });
}

/// Other tasks run while a change wakes the connections. Outside a runtime, the calling thread wakes all of them.
#[test]
fn a_change_wakes_a_part_of_the_connections_at_a_time() {
    const MANY: usize = 2_000;
    let server = Server::new(Http1, pressed());
    let (wakes, waker) = Wakes::new();
    let runtime = paused();
    let drives = runtime.block_on(async {
        let mut drives: Vec<_> = (0..MANY).map(|_| server.drive()).collect();
        for (_client, drive) in &mut drives {
            assert!(poll(drive, &waker).is_pending());
        }
        server.connections.set_pressure(0.5);
        let (other, mut rounds) = (wakes.clone(), 0..1_000);
        let (mut before, mut most) = (0, 0);
        let measured = tokio::spawn(poll_fn(move |cx| {
            let last = mem::replace(&mut before, other.count());
            most = most.max(before - last);
            cx.waker().wake_by_ref();
            rounds.next().map_or(Poll::Ready(most), |_| Poll::Pending)
        }));
        let most = measured.await.unwrap();
        assert!((1..=MANY / 100).contains(&most), "{most} at a time");
        assert_eq!(wakes.count(), MANY);
        for (_client, drive) in &mut drives {
            assert!(poll(drive, &waker).is_pending());
        }
        drives
    });
    server.connections.set_pressure(1.0);
    assert_eq!(wakes.count(), 2 * MANY);
    let _entered = runtime.enter();
    drop(drives);
}

/// The task of a connection blocks its worker until the change has woken all other connections.
#[test]
fn a_change_goes_on_while_a_woken_task_blocks_its_worker() {
    const MANY: usize = 300;
    const ROUNDS: usize = 10;
    for _ in 0..ROUNDS {
        does_not_hang(|| {
            multi_thread(2).block_on(async {
                let server = Server::new(Http1, pressed());
                let (waiting, woken) =
                    (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
                for _ in 0..MANY {
                    let (client, mut drive) = server.drive();
                    let (waiting, woken) = (waiting.clone(), woken.clone());
                    let mut polls = 0;
                    tokio::spawn(poll_fn(move |cx| {
                        let _open = &client;
                        polls += 1;
                        if polls == 2 && woken.fetch_add(1, Relaxed) == 0 {
                            wait_until(|| woken.load(Relaxed) == MANY);
                        }
                        let polled = drive.as_mut().poll(cx).map(drop);
                        waiting.fetch_add(usize::from(polls == 1), Relaxed);
                        polled
                    }));
                }
                while waiting.load(Relaxed) < MANY {
                    yield_now().await;
                }
                tokio::spawn(async move { server.connections.set_pressure(0.5) });
                while woken.load(Relaxed) < MANY {
                    sleep(ms(1)).await;
                }
            });
        });
    }
}

/// A connection that is opened while the shutdown begins ends too.
#[test]
fn no_connection_escapes() {
    does_not_hang(|| {
        multi_thread(2).block_on(async {
            for _ in 0..50 {
                let server = Server::new(Http1, Limits::new().grace(secs(600)));
                let opener = server.clone();
                let opened = tokio::spawn(async move {
                    let mut opened = Vec::new();
                    for _ in 0..50 {
                        let Ok(guard) = opener.connections.open() else {
                            break;
                        };
                        let (mut client, io) = duplex(1_024);
                        send(&mut client, "/after/0").await;
                        opened.push((client, tokio::spawn(serve(Http1, guard, io))));
                        yield_now().await;
                    }
                    opened
                });
                yield_now().await;
                server.connections.shutdown().await;
                for (_client, end) in opened.await.unwrap() {
                    let end = end.await.unwrap();
                    assert!(!end.is_cut && end.age < secs(590), "{end:?}");
                }
            }
        });
    });
}

/// With `pipeline_flush`, hyper 1.12 discards a response in its buffer if it has read a part of the next request. If
/// this test fails, hyper may have been repaired. Then change `docs/limitations.md`.
#[test]
fn hyper_discards_responses_with_pipeline_flush() {
    for (is_enabled, expected) in [(false, "HTTP/1.1 200"), (true, "")] {
        let answer = paused().block_on(async {
            let connections = Connections::new(Limits::new());
            let service = service_fn(async |_| {
                sleep(secs(10)).await;
                Ok::<_, Infallible>(Response::new("hello".to_owned()))
            });
            let (mut client, io) = duplex(1_024);
            let guard = connections.open().unwrap();
            let end = tokio::spawn(guard.serve(TokioIo::new(io), service, |io, service| {
                http1::Builder::new()
                    .pipeline_flush(is_enabled)
                    .serve_connection(io, service)
            }));
            let requests = b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n";
            client.write_all(requests).await.unwrap();
            sleep(secs(5)).await;
            connections.shutdown().await;
            let end = end.await.unwrap();
            assert_eq!((end.is_cut(), end.lost()), (false, 0));
            assert!(end.into_result().is_ok());
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer.get(..12).unwrap_or_default().to_owned()
        });
        assert_eq!(answer, expected, "pipeline_flush({is_enabled})");
    }
}

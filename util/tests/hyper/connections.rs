//! Tests the handle of all connections: how many may be open, their limits, and the shutdown.

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
}

/// The limits stay in force without a handle.
#[test]
fn limits_outlive_their_handle() {
    paused().block_on(async {
        for (limits, age) in [
            (Limits::new().idle(secs(60)), Some(60)),
            (Limits::new().idle(Duration::MAX), None),
            (Limits::new(), None),
        ] {
            let server = Server::new(Http1, limits.clone());
            let (_client, end) = server.connect();
            drop(server);
            let end = tokio::time::timeout(secs(100_000), end).await.ok();
            let expected = age.map(|age| quiet(Reason::Idle, secs(age)));
            assert_eq!(end.map(Result::unwrap), expected, "{limits:?}");
        }
    });
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

/// Other tasks run while a shutdown wakes the connections. Outside a runtime, the calling thread wakes all of them.
#[test]
fn a_shutdown_wakes_a_part_of_the_connections_at_a_time() {
    const MANY: usize = 2_000;
    let runtime = paused();
    for is_inside in [true, false] {
        let server = Server::new(Http1, Limits::new());
        let (wakes, waker) = Wakes::new();
        let _drives = runtime.block_on(async {
            let mut drives: Vec<_> = (0..MANY).map(|_| server.drive()).collect();
            for (_client, drive) in &mut drives {
                assert!(poll(drive, &waker).is_pending());
            }
            let mut shutdown = Box::pin(server.connections.shutdown());
            if is_inside {
                assert!(poll_once(&mut shutdown).await.is_pending());
            } else {
                thread::scope(|scope| {
                    scope.spawn(|| assert!(poll(&mut shutdown, Waker::noop()).is_pending()));
                });
                assert_eq!(wakes.count(), MANY);
            }
            let (other, mut rounds) = (wakes.clone(), 0..1_000);
            let (mut before, mut most) = (other.count(), 0);
            let measured = tokio::spawn(poll_fn(move |cx| {
                let last = mem::replace(&mut before, other.count());
                most = most.max(before - last);
                cx.waker().wake_by_ref();
                rounds.next().map_or(Poll::Ready(most), |_| Poll::Pending)
            }));
            let most = measured.await.unwrap();
            assert!(most <= MANY / 100, "{most} at a time");
            assert_eq!(wakes.count(), MANY);
            drives
        });
    }
}

/// The task of a connection blocks its worker until the shutdown has woken all other connections.
#[test]
fn a_shutdown_goes_on_while_a_woken_task_blocks_its_worker() {
    const MANY: usize = 300;
    const ROUNDS: usize = 10;
    for _ in 0..ROUNDS {
        does_not_hang(|| {
            multi_thread(2).block_on(async {
                let server = Server::new(Http1, Limits::new());
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
                tokio::spawn(async move { server.connections.shutdown().await });
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

/// The waker of the first caller panics when the last connection ends.
#[tokio::test]
async fn a_panicking_waker_harms_no_other_that_waits_for_the_shutdown() {
    let connections = Connections::new(Limits::new());
    let last = connections.open().unwrap();
    let (hostile, (wakes, waker)) = (Hook::on_wake(quiet_panic), Wakes::new());
    let mut waits = [(); 2].map(|()| Box::pin(connections.shutdown()));
    assert!(poll(&mut waits[0], &hostile.waker()).is_pending());
    assert!(poll(&mut waits[1], &waker).is_pending());
    drop(last);
    assert!(hostile.has_run() && wakes.count() == 1);
}

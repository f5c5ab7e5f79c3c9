//! Tests when a connection checks its limits, and connections whose runtime ends.

use super::*;

fn limits() -> Limits {
    Limits::new().idle(secs(10))
}

/// The name of a kind of runtime, its number of workers, and a function that makes it.
type Kind = (&'static str, usize, fn() -> Runtime);

pub(super) const KINDS: [Kind; 4] = [
    ("current-thread", 1, current_thread),
    ("1 worker", 1, || multi_thread(1)),
    ("2 workers", 2, || multi_thread(2)),
    ("4 workers", 4, || multi_thread(4)),
];

/// Returns how many entries of the default timer were registered, are pending, and have fired.
fn entries() -> [u64; 3] {
    let metrics = Timer::current().metrics();
    [metrics.registered(), metrics.pending(), metrics.fired()]
}

#[tokio::test(start_paused = true)]
async fn an_ended_connection_that_is_kept_has_no_entry() {
    let (client, server) = duplex(64);
    let service = service_fn(async |_| Ok::<_, Infallible>(Response::new(String::new())));
    let connect = |io, service| http1::Builder::new().serve_connection(io, service);
    let guard = Connections::new(limits()).open().unwrap();
    let mut drive = pin!(guard.serve(TokioIo::new(server), service, connect));
    assert!(
        drive
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert_eq!(entries()[1], 1);
    drop(client);
    assert!(
        drive
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
    assert_eq!(entries()[1], 0);
}

/// The other timers of these tests are tokio's.
#[test]
fn a_connection_has_one_entry() {
    const MANY: u64 = 50;
    paused().block_on(async {
        let limits = limits().max_age(secs(100)).jitter(0.0);
        let server = Server::new(Http1, limits);
        let mut clients: Vec<_> = (0..MANY).map(|_| server.connect()).collect();
        settle().await;
        assert_eq!(entries(), [MANY, MANY, 0]);
        // Each entry fires once in 9 s and is registered again. A request registers nothing but its own sleep.
        for round in 1..=5 {
            for _ in 0..30 {
                tokio::time::sleep(ms(300)).await;
                for (client, _) in &mut clients {
                    send(client, "/none").await;
                    assert!(client.read(&mut [0; 1_024]).await.unwrap() > 0);
                }
            }
            let [registered, pending, _] = entries();
            assert_eq!(pending, MANY);
            assert!(registered <= (round + 1) * MANY, "{registered} in {round}");
        }
        server.connections.shutdown().await;
        assert_eq!(entries()[1], 0);
        let lateness = Timer::current().metrics().lateness().sum();
        assert_eq!(lateness, Duration::ZERO);
    });
    // A connection without a limit never wakes up.
    paused().block_on(async {
        let server = Server::new(Http1, Limits::new().max_age(Duration::MAX));
        let (_client, _end) = server.connect();
        tokio::time::sleep(secs(86_400 * 10)).await;
        assert_eq!(entries(), [1, 1, 0]);
        server.connections.shutdown().await;
    });
}

#[test]
fn a_request_in_flight_wakes_its_connection_once_a_second() {
    paused().block_on(async {
        let server = Server::new(Http1, Limits::new().idle(Duration::ZERO));
        let (mut client, end) = server.connect();
        send(&mut client, "/after/100000").await;
        assert_eq!(end.await.unwrap(), quiet(Reason::Idle, secs(100)));
        let [.., fired] = entries();
        assert!((50..=101).contains(&fired), "{fired}");
    });
}

/// A poll with another waker moves the connection to another task. A shutdown and a limit must wake this task.
#[test]
fn a_connection_may_move_to_another_task() {
    paused().block_on(async {
        for is_shut_down in [false, true] {
            let server = Server::new(Http1, limits());
            let (_client, mut drive) = server.drive();
            assert!(poll_once(&mut drive).await.is_pending());
            let end = tokio::spawn(drive);
            settle().await;
            let expected = if is_shut_down {
                server.connections.shutdown().await;
                quiet(Reason::Shutdown, secs(0))
            } else {
                quiet(Reason::Idle, secs(10))
            };
            let end = tokio::time::timeout(secs(60), end).await;
            assert_eq!(end.expect("it must end").unwrap(), expected);
        }
    });
}

#[test]
fn a_handle_serves_on_one_runtime_after_the_other() {
    for protocol in ALL {
        let server = Server::new(protocol, limits());
        for _ in 0..3 {
            paused().block_on(async {
                let (mut client, end) = server.client().await;
                client.get("/after/0").await.unwrap();
                let expected = quiet(Reason::Idle, secs(10));
                assert_eq!(end.await.unwrap(), expected, "{protocol:?}");
                // This connection is open when the runtime ends.
                let (_client, _end) = server.client().await;
                settle().await;
            });
            assert_eq!(server.connections.counts().open(), 0);
        }
        assert_eq!(server.connections.counts().dropped(), 3);
        // No connection is left, so the shutdown does not wait.
        paused().block_on(server.connections.shutdown());
    }
}

/// The rounds of the next tests. In each round, the runtime ends a little later.
const ROUNDS: u64 = 30;

/// Runs rounds, which return the tasks of connections whose runtime has shut down. None may have panicked.
fn no_task_panics(
    rounds: u64,
    name: impl fmt::Display,
    round: impl Fn(u64) -> Vec<JoinHandle<End>> + Send + 'static,
) {
    let panics: Vec<_> = does_not_hang(move || {
        let runtime = current_thread();
        let has_panicked = |end: &mut JoinHandle<End>| {
            let end = runtime.block_on(end);
            end.is_err_and(|error| error.is_panic())
        };
        let count = |number| {
            let mut ends = round(number);
            ends.iter_mut().map(has_panicked).map(usize::from).sum()
        };
        (0..rounds).map(count).collect()
    });
    assert_eq!(panics.iter().sum::<usize>(), 0, "{name}: {panics:?}");
}

/// The handler blocks its worker until the other workers have dropped the timer.
#[test]
fn a_runtime_may_end_while_a_handler_has_the_processor() {
    for workers in [1, 2, 4] {
        no_task_panics(5, workers, move |_| {
            let server = Server::new(Http1, limits());
            let runtime = multi_thread(workers);
            let (mut client, end) = runtime.block_on(async { server.connect() });
            runtime.block_on(send(&mut client, "/block/60"));
            thread::sleep(ms(20));
            drop(runtime);
            vec![end]
        });
    }
}

/// The runtime ends while many connections shut down.
#[test]
fn a_runtime_may_end_during_a_shutdown() {
    const MANY: usize = 500;
    for (name, _, runtime) in KINDS {
        no_task_panics(ROUNDS, name, move |round| {
            let server = Server::new(Http1, limits());
            let runtime = runtime();
            let (_clients, ends): (Vec<_>, _) = runtime.block_on(async {
                let connections = (0..MANY).map(|_| server.connect()).unzip();
                settle().await;
                let mut shutdown = Box::pin(server.connections.shutdown());
                let _ = poll_once(&mut shutdown).await;
                connections
            });
            dawdle(20 * round);
            drop(runtime);
            wait_until(|| server.connections.counts().open() == 0);
            ends
        });
    }
}

/// The first poll of a connection is on one runtime, and the others on another. Requests keep the connection busy.
#[test]
fn a_connection_outlives_its_first_runtime() {
    no_task_panics(ROUNDS, "connections", |round| {
        let server = Server::new(Http1, Limits::new().idle(secs(300)));
        let (first, second) = (multi_thread(1), multi_thread(2));
        let mut ends = Vec::new();
        for _ in 0..20 {
            let (client, mut drive) = server.drive();
            assert!(first.block_on(poll_once(&mut drive)).is_pending());
            ends.push(second.spawn(drive));
            let mut client = second.block_on(Client::new(Http1, client));
            second.spawn(async move { while client.get("/after/0").await.is_ok() {} });
        }
        dawdle(20 * round);
        drop(first);
        thread::sleep(ms(2));
        assert_eq!(server.connections.counts().open(), 20);
        drop(second);
        ends
    });
}

/// A thread blocks on a connection. The runtime waits for the thread when it is dropped. In the first round, the end of
/// the runtime must wake the thread. In the others, the thread polls all the time, and the runtime ends during a poll.
#[test]
fn a_runtime_may_end_while_a_thread_blocks_on_a_connection() {
    for round in 0..ROUNDS {
        let end = does_not_hang(move || {
            let runtime = multi_thread(2);
            let server = Server::new(Http1, limits());
            let (_client, mut drive) = server.drive();
            let (begin, began) = mpsc::channel();
            let handle = runtime.handle().clone();
            let blocks = runtime.spawn_blocking(move || {
                begin.send(()).unwrap();
                handle.block_on(poll_fn(|cx| {
                    if round == 0 {
                        return drive.as_mut().poll(cx);
                    }
                    cx.waker().wake_by_ref();
                    // Another waker makes the connection set its sleep again.
                    let waker = Hook::on_wake(|| {}).waker();
                    drive.as_mut().poll(&mut Context::from_waker(&waker))
                }))
            });
            began.recv().unwrap();
            if round == 0 {
                thread::sleep(ms(20));
            }
            dawdle(20 * round);
            drop(runtime);
            assert_eq!(server.connections.counts().cut(), 1);
            current_thread().block_on(blocks).unwrap()
        });
        assert_eq!((end.reason, end.is_cut), (Reason::Shutdown, true));
    }
}

/// The first connection shares its part of the connections with another one.
#[tokio::test]
async fn a_panicking_waker_harms_no_other_connection() {
    let server = Server::new(Http1, Limits::new());
    let (wakes, waker) = Wakes::new();
    let hostile = Hook::on_wake(quiet_panic);
    let mut drives: Vec<_> = (0..256).map(|_| server.drive()).collect();
    assert!(poll(&mut drives[0].1, &hostile.waker()).is_pending());
    for (_client, drive) in &mut drives[1..] {
        assert!(poll(drive, &waker).is_pending());
    }
    let shutdown = tokio::spawn(async move { server.connections.shutdown().await });
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(hostile.has_run());
    assert_eq!(wakes.count(), 255);
    shutdown.abort();
}

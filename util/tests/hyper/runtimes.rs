//! Tests handles that are used on several runtimes, or longer than a runtime lives.

use tokio::{io::AsyncWriteExt as _, runtime::Runtime, task::JoinHandle};
use tokio_wheel::sleep;
use tokio_wheel_util::hyper::{Connections, Limits, Reason};

use crate::{
    server::{ALL, Client, End, Http1, Protocol, Server, each, quiet, serve},
    support::{
        current_thread, dawdle, does_not_hang, ms, multi_thread, paused, poll_once, secs, settle,
        wait_until,
    },
};

fn limits() -> Limits {
    Limits::new().idle(secs(10)).min_idle(secs(5))
}

/// The name of a kind of runtime, its number of workers, and a function that makes it.
pub(crate) type Kind = (&'static str, usize, fn() -> Runtime);

pub(crate) const KINDS: [Kind; 4] = [
    ("current-thread", 1, current_thread),
    ("1 worker", 1, || multi_thread(1)),
    ("2 workers", 2, || multi_thread(2)),
    ("4 workers", 4, || multi_thread(4)),
];

#[test]
fn a_handle_serves_on_one_runtime_after_the_other() {
    for protocol in ALL {
        let server = Server::new(protocol, limits());
        for pressure in [0.0, 1.0, 0.0] {
            server.connections.set_pressure(pressure);
            let limit = if pressure == 0.0 { secs(10) } else { secs(5) };
            paused().block_on(async {
                let (mut client, end) = server.client().await;
                client.get("/after/0").await.unwrap();
                assert_eq!(
                    end.await.unwrap(),
                    quiet(Reason::Idle, limit),
                    "{protocol:?}"
                );
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

#[test]
fn a_runtime_that_ends_drops_its_connections() {
    does_not_hang(|| {
        for _ in 0..20 {
            let server = Server::new(Http1, limits());
            let runtime = multi_thread(2);
            runtime.block_on(async {
                for _ in 0..50 {
                    let (mut client, end) = server.client().await;
                    tokio::spawn(async move { client.get("/after/60000").await });
                    drop(end);
                }
            });
            drop(runtime);
            let counts = server.connections.counts();
            // The runtime may drop a client first. Its server then sees that the connection closed. It may drop the
            // timer first. The connection is then cut.
            assert_eq!(
                (
                    counts.open(),
                    counts.dropped() + counts.closed() + counts.cut()
                ),
                (0, 50)
            );
        }
    });
}

/// A handle needs no runtime until a connection is driven.
#[test]
fn a_handle_can_be_created_outside_a_runtime() {
    let connections = Connections::new(limits());
    let lifetime = connections.open().unwrap();
    connections.set_pressure(0.5);
    connections.set_pressure(0.0);
    paused().block_on(async {
        let (_client, io) = tokio::io::duplex(64);
        assert_eq!(serve(Http1, lifetime, io).await.reason, Reason::Idle);
    });
    assert_eq!(connections.counts().idle(), 1);
}

/// A thread outside the runtime sets the pressure and shuts down while connections are open.
#[test]
fn a_thread_without_a_runtime_may_set_the_pressure_and_shut_down() {
    does_not_hang(|| {
        let server = Server::new(Http1, limits().grace(secs(600)));
        let runtime = multi_thread(2);
        let ends: Vec<_> = runtime.block_on(async {
            let mut ends = Vec::new();
            for _ in 0..100 {
                let (client, io) = tokio::io::duplex(1_024);
                let end = server.serve(io);
                let mut client = Client::new(Protocol::Http1, client).await;
                client.get("/after/0").await.unwrap();
                ends.push((client, end));
            }
            ends
        });
        for n in 0..100 {
            server.connections.set_pressure(f64::from(n % 10) / 10.0);
        }
        tokio_test::block_on(server.connections.shutdown());
        for (_client, end) in ends {
            runtime.block_on(end).unwrap();
        }
        assert_eq!(server.connections.counts().open(), 0);
    });
}

#[test]
fn other_timers_of_the_runtime_do_not_leap() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let (_client, end) = server.client().await;
        let start = tokio_wheel::Instant::now();
        let other = tokio::spawn(async move {
            sleep(secs(8)).await;
            start.elapsed()
        });
        settle().await;
        server.connections.set_pressure(1.0);
        server.connections.shutdown().await;
        assert_eq!(other.await.unwrap(), secs(8));
        assert_eq!(end.await.unwrap().reason, Reason::Shutdown);
    });
}

/// The timer runs on the first runtime. When this runtime ends, a connection on the second runtime starts a timer
/// there.
#[test]
fn the_end_of_a_runtime_spares_the_connections_of_another() {
    does_not_hang(|| {
        let server = Server::new(Http1, Limits::new().idle(ms(300)));
        let (first, second) = (multi_thread(1), multi_thread(1));
        let (mut client, _end) = first.block_on(server.client());
        first.block_on(client.get("/after/0")).unwrap();
        let (mut client, end) = second.block_on(server.client());
        second.block_on(client.get("/after/0")).unwrap();
        let request = second.spawn(async move { (client.get("/after/200").await, client) });
        drop(first);
        let (answer, _client) = second.block_on(request).unwrap();
        answer.unwrap();
        let end = second.block_on(end).unwrap();
        assert_eq!((end.reason, end.is_cut), (Reason::Idle, false));
    });
}

/// Returns how many of the tasks have panicked. Their runtime must have shut down.
fn panicked(ends: Vec<JoinHandle<End>>) -> usize {
    let runtime = current_thread();
    let ends = (ends.into_iter()).map(|end| runtime.block_on(end));
    ends.filter(|end| matches!(end, Err(error) if error.is_panic()))
        .count()
}

/// A handler blocks its worker while another thread drops the runtime. The other workers have dropped the timer when
/// the handler returns.
#[test]
fn a_runtime_may_end_while_a_handler_has_the_processor() {
    const ROUNDS: usize = 20;
    for workers in [1, 2, 4] {
        let panicked: usize = does_not_hang(move || {
            let round = |_| {
                let server = Server::new(Http1, limits());
                let runtime = multi_thread(workers);
                let (mut client, end) = runtime.block_on(async { server.connect() });
                let request = b"GET /block/60 HTTP/1.1\r\n\r\n";
                runtime.block_on(client.write_all(request)).unwrap();
                std::thread::sleep(ms(20));
                drop(runtime);
                panicked(vec![end])
            };
            (0..ROUNDS).map(round).sum()
        });
        assert_eq!(
            panicked, 0,
            "of {ROUNDS} connections, with {workers} workers"
        );
    }
}

/// The runtime ends while many connections shut down.
#[test]
fn a_runtime_may_end_during_a_shutdown() {
    const MANY: usize = 500;
    for (name, _, runtime) in KINDS {
        let panics = does_not_hang(move || {
            let round = |round: u64| {
                let server = Server::new(Http1, limits());
                let runtime = runtime();
                let mut clients = Vec::new();
                let mut ends = Vec::new();
                runtime.block_on(async {
                    for _ in 0..MANY {
                        let (client, end) = server.connect();
                        clients.push(client);
                        ends.push(end);
                    }
                    settle().await;
                    let mut shutdown = Box::pin(server.connections.shutdown());
                    let _ = poll_once(&mut shutdown).await;
                });
                dawdle(20 * round);
                drop(runtime);
                wait_until(|| server.connections.counts().open() == 0);
                panicked(ends)
            };
            (0..ROUNDS).map(round).collect::<Vec<_>>()
        });
        let rounds = panics.iter().filter(|panics| **panics > 0).count();
        let panics: usize = panics.iter().sum();
        assert_eq!(
            (rounds, panics),
            (0, 0),
            "rounds with panics, and panics, with {name}"
        );
    }
}

/// The rounds of [`a_runtime_may_end_during_a_shutdown`] for each runtime.
const ROUNDS: u64 = 100;

/// The timer runs on one runtime, and many requests keep connections of another runtime busy. When the first runtime
/// ends, a poll of these connections may just use the timer.
#[test]
fn a_connection_outlives_the_runtime_of_its_timer() {
    let panicked: usize = does_not_hang(|| {
        let round = |round: u64| {
            let server = Server::new(Http1, Limits::new().idle(secs(300)));
            let (first, second) = (multi_thread(1), multi_thread(2));
            let (mut client, _end) = first.block_on(server.client());
            first.block_on(client.get("/after/0")).unwrap();
            let mut ends = Vec::new();
            for _ in 0..20 {
                let (mut client, end) = second.block_on(server.client());
                ends.push(end);
                second.spawn(async move { while client.get("/after/0").await.is_ok() {} });
            }
            std::thread::sleep(ms(5));
            dawdle(20 * round);
            drop(first);
            std::thread::sleep(ms(2));
            drop(second);
            panicked(ends)
        };
        (0..2 * ROUNDS).map(round).sum()
    });
    assert_eq!(panicked, 0, "connections");
}

/// A thread blocks on a connection. The runtime waits for the thread when it is dropped.
#[test]
fn a_runtime_may_end_while_a_thread_blocks_on_a_connection() {
    let end = does_not_hang(|| {
        let runtime = multi_thread(2);
        let connections = Connections::new(limits());
        let lifetime = connections.open().unwrap();
        let (_client, io) = tokio::io::duplex(64);
        let (begin, began) = std::sync::mpsc::channel();
        let handle = runtime.handle().clone();
        let blocks = runtime.spawn_blocking(move || {
            begin.send(()).unwrap();
            handle.block_on(serve(Http1, lifetime, io))
        });
        began.recv().unwrap();
        std::thread::sleep(ms(20));
        drop(runtime);
        assert_eq!(connections.counts().cut(), 1);
        current_thread().block_on(blocks).unwrap()
    });
    assert_eq!((end.reason, end.is_cut), (Reason::Shutdown, true));
}

//! Tests requests that the kernel has received while all workers blocked, before a limit was reached or the server shut
//! down. Each client must get its response.

use Cause::*;

use super::{recheck::KINDS, *};

/// What ends the connections.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    Idle,
    MaxAge,
    Shutdown,
}

const BLOCKED: u64 = 100;

impl Cause {
    fn limits(self) -> Limits {
        let limits = Limits::new().jitter(0.0);
        match self {
            Idle => limits.idle(ms(BLOCKED - 10)),
            MaxAge => limits.max_age(ms(BLOCKED - 10)),
            Shutdown => limits,
        }
    }
}

fn send(client: &mut net::TcpStream) {
    let request = b"GET /none HTTP/1.1\r\n\r\n";
    client.write_all(request).unwrap();
}

/// Waits for a response, or for the end of the connection. Returns whether there is a response.
fn is_answered(client: &mut net::TcpStream) -> bool {
    let mut answer = [0; 12];
    client.read_exact(&mut answer).is_ok() && &answer == b"HTTP/1.1 200"
}

/// Returns how many of `many` requests get no response. The kernel first receives a byte for each of `others` sockets.
fn lost(others: usize, runtime: Runtime, workers: usize, cause: Cause, many: usize) -> usize {
    let server = Server::new(Http1, cause.limits());
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let runs = thread::spawn(move || {
        let _ = runtime.block_on(stopped);
        runtime.shutdown_timeout(secs(60));
    });

    let _entered = handle.enter();
    let connect = || {
        let client = net::TcpStream::connect(address).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_read_timeout(Some(secs(300))).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        (client, TcpStream::from_std(socket).unwrap())
    };
    let mut others: Vec<_> = (0..others).map(|_| connect()).collect();
    let mut clients = Vec::new();
    for _ in 0..many {
        let (client, socket) = connect();
        clients.push(client);
        server.serve(socket);
    }
    if cause == Shutdown {
        for client in &mut clients {
            send(client);
            assert!(is_answered(client));
            // The rest of the response.
            let _ = client.read(&mut [0; 1_024]).unwrap();
        }
    }
    let begin = Arc::new(Barrier::new(workers + 1));
    let end = Arc::new(Barrier::new(workers + 1));
    for number in 0..workers {
        let (begin, end) = (begin.clone(), end.clone());
        let connections = server.connections.clone();
        handle.spawn(async move {
            begin.wait();
            end.wait();
            if number == 0 && cause == Shutdown {
                connections.shutdown().await;
            }
        });
    }
    begin.wait();
    for (other, _) in &mut others {
        other.write_all(b"x").unwrap();
    }
    for client in &mut clients {
        send(client);
    }
    thread::sleep(ms(BLOCKED));
    end.wait();
    let is_lost = |client: &mut net::TcpStream| !is_answered(client);
    let lost = clients.iter_mut().map(is_lost).filter(|lost| *lost).count();
    drop(clients);
    let _ = stop.send(());
    runs.join().unwrap();
    lost
}

fn under_load<T>(body: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let processors = thread::available_parallelism().unwrap();
        for _ in 0..2 * processors.get() {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // The threads must also end if `body` panics.
        let result = catch_unwind(AssertUnwindSafe(body));
        is_over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[test]
fn a_request_that_the_kernel_has_is_answered() {
    let lost = || {
        for (name, workers, runtime) in KINDS {
            for cause in [Idle, MaxAge, Shutdown] {
                let lost = [(); 2].map(|()| lost(0, runtime(), workers, cause, 20));
                assert_eq!(lost, [0, 0], "{name}, {cause:?}");
            }
        }
    };
    does_not_hang(move || under_load(lost));
}

/// One event poll of tokio's I/O driver reads at most 1,024 events, also of sockets that the server does not serve.
#[test]
fn many_requests_that_the_kernel_has_are_answered() {
    for (others, many) in [(0, 3_000), (3_000, 4)] {
        for (name, workers, runtime) in [KINDS[0], KINDS[2]] {
            let lost = does_not_hang(move || lost(others, runtime(), workers, Shutdown, many));
            assert_eq!(lost, 0, "{name}, {others} other sockets");
        }
    }
}

/// Connections that reach a limit at one instant share a task that waits for event polls.
#[test]
fn a_crowd_that_closes_shares_its_event_polls() {
    const MANY: usize = 1_000;
    for cause in [Idle, MaxAge, Shutdown] {
        paused().block_on(async {
            let server = Server::new(Http1, cause.limits());
            let _connections: Vec<_> = (0..MANY).map(|_| server.connect()).collect();
            settle().await;
            let alive = || Handle::current().metrics().num_alive_tasks();
            let before = alive();
            let most = tokio::spawn(async move {
                let mut most = 0;
                for _ in 0..2_000 {
                    most = most.max(alive());
                    yield_now().await;
                }
                most
            });
            match cause {
                Shutdown => server.connections.shutdown().await,
                Idle | MaxAge => advance(ms(BLOCKED)).await,
            }
            let most = most.await.unwrap() - before;
            assert!(most <= 20, "{cause:?}: {most} more tasks");
            assert_eq!(server.connections.counts().open(), 0);
        });
    }
}

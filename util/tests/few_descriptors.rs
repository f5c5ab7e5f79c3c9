//! Servers in a process that may open only a few more files. The test changes the limit of its process, so it is the
//! only test in this program.

#![cfg(all(feature = "hyper", feature = "io", target_os = "linux"))]

use std::{
    fs,
    future::Future,
    io::{Read as _, Write as _},
    net, thread,
    time::Duration,
};

use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    time::{ClockId, clock_gettime},
};
use tokio::net::TcpListener;
use tokio_wheel_util::hyper::{Connections, Limits};

#[expect(dead_code, reason = "`main`, the clients and the report")]
#[path = "../examples/hyper_server.rs"]
mod hyper_server;

/// The server in the documentation of `tokio_wheel_util::hyper`.
mod documented {
    use axum::Router;
    use hyper_util::{
        rt::{TokioExecutor, TokioIo},
        server::conn::auto,
        service::TowerToHyperService,
    };
    use tokio::net::TcpListener;
    use tokio_wheel::{Duration, sleep};
    use tokio_wheel_util::hyper::Connections;

    pub(super) async fn serve(listener: TcpListener, app: Router, connections: Connections) {
        loop {
            let socket = match listener.accept().await {
                Ok((socket, _)) => socket,
                // The client has left, or no file descriptor is left. A pause avoids a busy loop.
                Err(error) => {
                    eprintln!("failed to accept a connection: {error}");
                    sleep(Duration::from_millis(10)).await;
                    continue;
                }
            };
            let Ok(guard) = connections.open() else {
                continue; // Drops the socket.
            };
            let service = TowerToHyperService::new(app.clone());
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                let connect =
                    |service| builder.serve_connection_with_upgrades(TokioIo::new(socket), service);
                guard.serve(service, connect).await.into_result()
            });
        }
    }
}

/// Returns the function `serve` in `text`, without white space and without the marks of comments.
fn server(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start_matches("//!"));
    let from = lines.skip_while(|line| !line.contains("async fn serve("));
    let text: String = from.flat_map(str::split_whitespace).collect();
    let (server, _) = text.split_once("into_result()});}}").unwrap();
    server.trim_start_matches("pub(super)").to_owned()
}

const CLIENTS: usize = 60;

/// The number of descriptors that the server can open at least.
const FEW: usize = 20;

/// Returns whether the client gets a response.
fn is_answered(client: &mut net::TcpStream) -> bool {
    let mut answer = [0; 12];
    let request = b"GET / HTTP/1.1\r\n\r\n";
    client.write_all(request).is_ok()
        && client.read_exact(&mut answer).is_ok()
        && answer.starts_with(b"HTTP/1.1 ")
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}

/// Runs a server that cannot accept all clients. When the first clients leave, the server must accept the others.
fn survives<F: Future + Send + 'static>(serve: impl FnOnce(TcpListener, Connections) -> F)
where
    F::Output: Send,
{
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = |_| {
        let client = net::TcpStream::connect(address).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        client
    };
    let mut clients: Vec<_> = (0..CLIENTS).map(connect).collect();

    let limit = getrlimit(Resource::Nofile);
    let open = fs::read_dir("/proc/self/fd").unwrap().count() - 1;
    let few = Rlimit {
        current: Some((open + FEW) as u64),
        ..limit
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let connections = Connections::new(Limits::new());
    let server = tokio::spawn(serve(listener, connections.clone()));
    let waiting = clients.split_off(FEW);
    assert!(
        clients.iter_mut().all(is_answered),
        "a client that the server has accepted"
    );
    let open = connections.counts().open();
    assert!(open < CLIENTS as u64, "the server has accepted all clients");
    let before = processor_time();
    thread::sleep(Duration::from_secs(1));
    let used = processor_time() - before;
    assert!(
        used < Duration::from_millis(400),
        "the server spins: it used {used:?} of 1 s"
    );
    drop(clients);
    for mut client in waiting {
        assert!(!server.is_finished(), "the server has ended");
        assert!(
            is_answered(&mut client),
            "a client that the server accepts later"
        );
    }
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn a_server_survives_failed_accepts() {
    let [documentation, test] = [
        include_str!("../src/hyper/mod.rs"),
        include_str!("few_descriptors.rs"),
    ];
    assert_eq!(server(documentation), server(test));
    survives(|listener, connections| {
        let answer = axum::routing::get(async || "hello");
        documented::serve(
            listener,
            axum::Router::new().route("/", answer),
            connections,
        )
    });
    survives(|listener, connections| {
        let second = Duration::from_secs(1);
        let settings = hyper_server::Settings {
            window: second,
            request: second,
            idle: second,
            age: second,
            grace: second,
        };
        hyper_server::serve(listener, connections, settings)
    });
}

//! A server in a process that may open only a few more files.

use std::{
    fs,
    future::IntoFuture as _,
    io::{Read as _, Write as _},
    net,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use axum::{Router, routing::get};
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    time::{ClockId, clock_gettime},
};
use tokio::net::TcpListener;
use tokio_wheel_util::{
    hyper::{Connections, Limits, ServeError},
    serve,
};

const CLIENTS: usize = 60;

/// The number of descriptors that the server can open at least.
const FEW: usize = 20;

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

/// The server cannot accept all clients. When the first clients leave, it must accept the others.
#[test]
fn a_server_survives_failed_accepts() {
    let _alone = super::alone();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = |_| {
        let client = net::TcpStream::connect(address).unwrap();
        let limit = Some(Duration::from_secs(60));
        client.set_read_timeout(limit).unwrap();
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
    let app = Router::new().route("/", get(async || "hello"));
    let errors = Arc::<AtomicUsize>::default();
    let server = serve(listener, app).connections(&connections).on_error({
        let errors = errors.clone();
        move |error| match error {
            ServeError::Accept(_) => drop(errors.fetch_add(1, Relaxed)),
            error => panic!("{error}"),
        }
    });
    let server = tokio::spawn(server.into_future());
    let waiting = clients.split_off(FEW);
    assert!(clients.iter_mut().all(is_answered), "the accepted clients");
    let open = connections.counts().open();
    assert!(open < CLIENTS as u64, "the server has accepted all clients");
    let before = processor_time();
    thread::sleep(Duration::from_secs(1));
    let used = processor_time() - before;
    let spins = used >= Duration::from_millis(400);
    assert!(!spins, "the server used {used:?} of 1 s");
    drop(clients);
    for mut client in waiting {
        assert!(!server.is_finished(), "the server has ended");
        assert!(is_answered(&mut client), "a client that waited");
    }
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(errors.load(Relaxed) > 0, "no accept has failed");
}

//! Runs the servers on real sockets, with clients that are slow, vanish, or ask while the server shuts down.

use std::{net::SocketAddr, sync::Mutex};

use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
};
use tokio_wheel::Instant;
use tokio_wheel_util::hyper::Reason;

use super::*;

/// A running server.
struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<io::Result<Counts>>,
}

impl Server {
    async fn start(service: impl Health) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(run(listener, service, async { drop(stopped.await) }));
        Self {
            address,
            stop,
            running,
        }
    }

    async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect().await.unwrap()
    }

    async fn shutdown(self) -> Counts {
        drop(self.stop);
        self.running.await.unwrap().unwrap()
    }
}

fn request(service: &str) -> Request<HealthCheckRequest> {
    let service = service.to_owned();
    Request::new(HealthCheckRequest { service })
}

/// Sends the deadlines of its requests to the test.
struct Spy(Mutex<mpsc::UnboundedSender<Duration>>);

#[tonic::async_trait]
impl Health for Spy {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let left = tokio_wheel_util::deadline::remaining().unwrap();
        self.0.lock().unwrap().send(left).unwrap();
        Backend.check(request).await
    }

    type WatchStream = BoxStream<HealthCheckResponse>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Backend.watch(request).await
    }
}

/// The backend gets the deadline of the gateway's client, or the limit of the gateway.
#[tokio::test]
async fn the_deadline_passes_through() {
    let (seen, mut deadlines) = mpsc::unbounded_channel();
    let backend = Server::start(Spy(Mutex::new(seen))).await;
    let gateway = Server::start(Gateway::new(backend.channel().await)).await;
    let mut client = HealthClient::new(gateway.channel().await);
    for (given, at_most) in [(None, 3_000), (Some(1_000), 1_000), (Some(9_000), 3_000)] {
        let mut request = request("");
        if let Some(given) = given {
            request.set_timeout(Duration::from_millis(given));
        }
        let answer = client.check(request).await.unwrap();
        assert_eq!(answer.get_ref().status(), ServingStatus::Serving);
        let left = deadlines.recv().await.unwrap();
        assert!(left <= Duration::from_millis(at_most), "{left:?}");
    }
}

/// Without a deadline of its own, a client waits for the limit of the gateway, and gets the status of gRPC.
#[tokio::test]
async fn a_slow_backend_ends_in_time() {
    let backend = Server::start(Backend).await;
    let gateway = Server::start(Gateway::new(backend.channel().await)).await;
    let mut client = HealthClient::new(gateway.channel().await);
    let start = Instant::now();
    let failed = client.check(request("slow")).await.unwrap_err();
    assert_eq!(failed.code(), Code::DeadlineExceeded, "{failed:?}");
    assert!(start.elapsed() >= Duration::from_secs(3));
}

/// Requests in flight are answered, and new clients are refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_under_load() {
    let server = Server::start(Backend).await;
    let address = server.address;
    let mut clients = JoinSet::new();
    for _ in 0..20 {
        let mut client = HealthClient::new(server.channel().await);
        clients.spawn(async move {
            client.check(request("")).await.unwrap();
            client.check(request("work")).await.is_ok()
        });
    }
    // The server has received the requests by then.
    sleep(Duration::from_millis(50)).await;
    let counts = server.shutdown().await;
    assert!(TcpStream::connect(address).await.is_err());
    assert_eq!((counts.open(), counts.cut()), (0, 0), "{counts:?}");
    let answered = clients.join_all().await;
    assert!(answered.iter().all(|is_answered| *is_answered));
}

/// A client that says nothing loses its connection. A client that vanishes during a request leaves nothing.
#[tokio::test]
async fn silent_clients_and_vanished_clients() {
    let server = Server::start(Backend).await;
    let start = Instant::now();
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut client = HealthClient::new(server.channel().await);
    let asked = tokio::time::timeout(Duration::from_millis(100), client.check(request("slow")));
    assert!(asked.await.is_err());
    drop(client);
    assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(start.elapsed() >= Duration::from_secs(2));
    let counts = server.shutdown().await;
    assert_eq!((counts.dropped(), counts.cut()), (0, 0), "{counts:?}");
    assert_eq!(counts.ended(Reason::Header), 1, "{counts:?}");
    assert_eq!(counts.ended(Reason::Closed), 1, "{counts:?}");
}

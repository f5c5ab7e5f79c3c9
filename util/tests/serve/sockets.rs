//! Tests servers on real sockets, with a real clock.

use super::*;

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Clients ask as fast as they can while the server shuts down. Each request that has reached the handler is answered.
#[test]
fn a_shutdown_under_load_loses_no_request() {
    for runtime in [multi_thread(2), current_thread()] {
        does_not_hang(move || {
            runtime.block_on(async {
                for protocol in [Auto1Upgrades, Auto2Upgrades] {
                    let begun = Arc::<AtomicUsize>::default();
                    let handler = {
                        let begun = begun.clone();
                        async move || {
                            begun.fetch_add(1, Relaxed);
                            tokio::time::sleep(ms(5)).await;
                            "hello"
                        }
                    };
                    let app = Router::new().route("/", get(handler));
                    let (listener, address) = listen().await;
                    let connections = Connections::new(Limits::new().grace(secs(60)));
                    let (stop, stopped) = oneshot::channel::<()>();
                    let server = serve(listener, app)
                        .connections(&connections)
                        .with_graceful_shutdown(async { drop(stopped.await) });
                    let server = tokio::spawn(server.into_future());
                    let mut clients = JoinSet::new();
                    for _ in 0..50 {
                        clients.spawn(async move {
                            let socket = TcpStream::connect(address).await.unwrap();
                            let mut client = Client::new(protocol, socket).await;
                            let mut answers = 0;
                            while let Ok(length) = client.get("/").await {
                                assert_eq!(length, 5);
                                answers += 1;
                            }
                            answers
                        });
                    }
                    while begun.load(Relaxed) < 1_000 {
                        tokio::time::sleep(ms(1)).await;
                    }
                    drop(stop);
                    server.await.unwrap().unwrap();
                    assert_eq!(connections.counts().cut(), 0);
                    let refused = TcpStream::connect(address).await;
                    assert!(refused.is_err(), "new clients must be refused");
                    let answers: usize = clients.join_all().await.into_iter().sum();
                    assert_eq!(answers, begun.load(Relaxed));
                    assert_eq!(connections.counts().ended(Reason::Shutdown), 50);
                }
            })
        });
    }
}

/// Clients that vanish at any point keep no connection open, and do not disturb the others.
#[test]
fn clients_that_vanish_leave_nothing() {
    does_not_hang(|| {
        multi_thread(2).block_on(async {
            let (listener, address) = listen().await;
            let app = tower::service_fn(|_| async {
                tokio::time::sleep(ms(20)).await;
                Ok::<_, io::Error>(hyper::Response::new("x".repeat(1 << 20)))
            });
            let connections = Connections::new(Limits::new());
            let server = tokio::spawn(serve(listener, app).connections(&connections).into_future());
            for number in 0..60_usize {
                let socket = std::net::TcpStream::connect(address).unwrap();
                let request = b"GET / HTTP/1.1\r\n\r\n";
                let sent = &request[..number % (request.len() + 1)];
                std::io::Write::write_all(&mut &socket, sent).unwrap();
                tokio::time::sleep(ms(number as u64 % 3 * 10)).await;
            }
            let socket = TcpStream::connect(address).await.unwrap();
            let mut client = Client::new(Auto1Upgrades, socket).await;
            assert_eq!(client.get("/").await.unwrap(), 1 << 20);
            drop(client);
            while connections.counts().open() > 0 {
                tokio::time::sleep(ms(1)).await;
            }
            assert!(!server.is_finished());
            assert_eq!(
                connections.counts().ended(Reason::Closed) + connections.counts().dropped(),
                61
            );
        })
    });
}

/// Each request of a connection has the client's address, also if it is one of several on HTTP/2.
#[test]
fn handlers_know_their_client() {
    current_thread().block_on(async {
        for protocol in [Auto1Upgrades, Auto2Upgrades] {
            let who = async |ConnectInfo(client): ConnectInfo<SocketAddr>| client.to_string();
            let app = Router::new().route("/", get(who));
            let tapped = Arc::<AtomicUsize>::default();
            let count = tapped.clone();
            let listener = listen().await.0.tap_io(move |socket: &mut TcpStream| {
                assert!(socket.nodelay().unwrap());
                count.fetch_add(1, Relaxed);
            });
            let server = serve(listener, app).with_connect_info(ConnectInfo);
            let address = server.local_addr().unwrap();
            let server = tokio::spawn(server.into_future());
            for clients in 1..=2 {
                let socket = TcpStream::connect(address).await.unwrap();
                let expected = socket.local_addr().unwrap().to_string();
                let mut client = Client::new(protocol, socket).await;
                for _ in 0..3 {
                    assert_eq!(client.get("/").await.unwrap(), expected.len());
                }
                assert_eq!(tapped.load(Relaxed), clients);
            }
            server.abort();
        }
    });
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_a_listener() {
    let path = std::env::temp_dir().join(format!("tokio-wheel-serve-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    current_thread().block_on(async {
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let app = Router::new().route("/", get(async || "hello"));
        let connections = Connections::new(Limits::new());
        let server = tokio::spawn(serve(listener, app).connections(&connections).into_future());
        let socket = tokio::net::UnixStream::connect(&path).await.unwrap();
        let mut client = Client::new(Auto2Upgrades, socket).await;
        assert_eq!(client.get("/").await.unwrap(), 5);
        connections.shutdown().await;
        server.await.unwrap().unwrap();
    });
    std::fs::remove_file(&path).unwrap();
}

//! A tunnel limits an upgraded connection, which the limits of the server no longer do.

use axum::body::Body;
use http_body_util::Empty;
use hyper::{
    StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{CONNECTION, UPGRADE},
};
use hyper_util::rt::TokioIo;
use tokio_wheel_util::io::{TunnelReason, tunnel};

use super::*;

/// The server answers both kinds of requests, and copies between the client and a backend. The limits of the connection
/// are shorter than those of the tunnel, and the server shuts down.
#[test]
fn a_tunnel_limits_an_upgraded_connection() {
    for (method, status) in [
        ("GET", StatusCode::SWITCHING_PROTOCOLS),
        ("CONNECT", StatusCode::OK),
    ] {
        paused().block_on(async {
            let (accept, accepted) = mpsc::unbounded_channel();
            let (tunnels, mut tunnel_ends) = mpsc::unbounded_channel();
            let (to_backend, mut backend) = duplex(1_024);
            let to_backend = Arc::new(Mutex::new(Some(to_backend)));
            let upgrade = async move |request: Request<Body>| {
                tokio::spawn(async move {
                    let client = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
                    let backend = to_backend.lock().unwrap().take().unwrap();
                    let tunnel = tunnel(client, backend).idle(secs(60)).half_close(secs(10));
                    tunnels.send(tunnel.await).unwrap();
                });
                (status, [(UPGRADE, "echo")])
            };
            let app = Router::new().fallback(upgrade);
            let connections = Connections::new(Limits::new().idle(secs(5)).max_age(secs(20)));
            let server = serve(Memory(accepted), app).connections(&connections);
            let server = tokio::spawn(server.into_future());

            let (io, theirs) = duplex(1_024);
            accept.send(Ok(theirs)).unwrap();
            let (mut client, driver) = http1::handshake(TokioIo::new(io)).await.unwrap();
            tokio::spawn(driver.with_upgrades());
            let request = Request::builder().method(method).uri("backend:80");
            let request = request
                .header(CONNECTION, "upgrade")
                .header(UPGRADE, "echo");
            let request = request.body(Empty::<Bytes>::new()).unwrap();
            let response = client.send_request(request).await.unwrap();
            assert_eq!(response.status(), status);
            let mut client = TokioIo::new(hyper::upgrade::on(response).await.unwrap());

            assert_eq!(connections.counts().ended(Reason::Closed), 1);
            connections.shutdown().await;
            server.await.unwrap().unwrap();
            for _ in 0..3 {
                sleep(secs(50)).await;
                client.write_all(b"ping").await.unwrap();
                let mut ping = [0; 4];
                backend.read_exact(&mut ping).await.unwrap();
                backend.write_all(b"pong!").await.unwrap();
                client.read_exact(&mut [0; 5]).await.unwrap();
                assert_eq!(connections.counts().open(), 0);
            }
            let start = Instant::now();
            let end = tunnel_ends.recv().await.unwrap();
            assert!(matches!(end.reason, TunnelReason::Idle), "{end:?}");
            assert_eq!((end.a_to_b, end.b_to_a), (12, 15));
            assert_eq!(start.elapsed(), secs(60));
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        });
    }
}

//! Tests connections whose I/O is upgraded.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_wheel::sleep;
use tokio_wheel_util::hyper::{Limits, Reason};

use crate::{
    server::{Auto1Upgrades, Server, quiet},
    support::{paused, secs},
};

/// hyper's connection ends with the upgrade. From then on, no limit and no shutdown ends the I/O.
#[test]
fn an_upgrade_leaves_the_limits() {
    paused().block_on(async {
        let limits = Limits::new()
            .idle(secs(10))
            .max_age(secs(20))
            .grace(secs(5));
        let server = Server::new(Auto1Upgrades, limits);
        let (mut client, end) = server.connect();
        sleep(secs(5)).await;
        let request = b"GET /upgrade HTTP/1.1\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
        client.write_all(request).await.unwrap();
        assert_eq!(end.await.unwrap(), quiet(Reason::Closed, secs(5)));
        assert_eq!(server.connections.counts().open(), 0);
        server.connections.shutdown().await;

        let mut answer = [0; 1_024];
        let length = client.read(&mut answer).await.unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 101"));
        for _ in 0..3 {
            sleep(secs(100)).await;
            client.write_all(b"echo").await.unwrap();
            let mut echo = [0; 4];
            client.read_exact(&mut echo).await.unwrap();
            assert_eq!(&echo, b"echo");
        }
    });
}

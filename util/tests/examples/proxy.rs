//! Runs the example `proxy` over sockets.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

#[expect(dead_code, reason = "`main`")]
#[path = "../../examples/proxy.rs"]
mod forwarder;

/// The server answers after the client has ended its request, and ends its answer.
#[tokio::test]
async fn a_client_gets_its_answer_through_the_proxy() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap();
    let upstream = server.local_addr().unwrap().to_string();
    let running = tokio::spawn(async { forwarder::serve(proxy, upstream).await });
    let answer = async {
        let (mut client, _) = server.accept().await.unwrap();
        let mut request = String::new();
        client.read_to_string(&mut request).await.unwrap();
        client
            .write_all(request.to_uppercase().as_bytes())
            .await
            .unwrap();
    };
    let ask = async {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"hello").await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "HELLO");
    };
    tokio::join!(answer, ask);
    running.abort();
}

//! A TCP proxy that limits how long connecting, silence and a half-closed connection may take.
//!
//! ```text
//! cargo run -p tokio-wheel-util --example proxy --features io -- 127.0.0.1:8080 example.com:80
//! curl -H 'Host: example.com' 127.0.0.1:8080
//! ```

use std::{env, io};

use tokio::net::{TcpListener, TcpStream};
use tokio_wheel::{Duration, sleep, timeout};
use tokio_wheel_util::io::{TunnelEnd, tunnel};

const CONNECT: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(300);
const HALF_CLOSE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [address, upstream] = &arguments[..] else {
        eprintln!("usage: proxy LISTEN UPSTREAM, for example 127.0.0.1:8080 example.com:80");
        return Ok(());
    };
    let listener = TcpListener::bind(address).await?;
    println!("try: curl {}", listener.local_addr()?);
    serve(listener, upstream.clone()).await
}

/// Serves each client with a connection of its own to `upstream`.
pub(crate) async fn serve(listener: TcpListener, upstream: String) -> ! {
    loop {
        let Ok((client, from)) = listener.accept().await else {
            // No file descriptor is left, for example.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let upstream = upstream.clone();
        tokio::spawn(async move {
            match forward(client, &upstream).await {
                Ok(end) => println!("{from}: {end:?}"),
                Err(error) => println!("{from}: cannot connect to {upstream}: {error}"),
            }
        });
    }
}

async fn forward(client: TcpStream, upstream: &str) -> io::Result<TunnelEnd> {
    let server = timeout(CONNECT, TcpStream::connect(upstream)).await??;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let tunnel = tunnel(client, server).idle(IDLE).half_close(HALF_CLOSE);
    Ok(tunnel.await)
}

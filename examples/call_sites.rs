//! Finds a leak of timers in a running server.
//!
//! ```text
//! cargo run --example call_sites --features call-sites
//! ```
//!
//! A handler of the server leaks a sleep with each request. The page `/debug/timers` says which line of the program has how
//! many timers pending.

use std::{fmt::Write as _, io, net::SocketAddr};

use axum::{Router, routing::get};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_wheel::{Duration, Instant, Timer, sleep};

const LEAKED: u64 = 100_000;

/// Plants many leaks at once. In a real program, it would be one for each request.
async fn order() -> &'static str {
    for _ in 0..LEAKED {
        // Nobody cancels this reminder when the order is done.
        tokio::spawn(sleep(Duration::from_secs(24 * 3_600)));
    }
    "ordered\n"
}

/// The page for operators. Never serve it to the public.
async fn timers() -> String {
    let now = Instant::now();
    let mut page = String::from("pending  first expires in  last expires in  set by\n");
    for site in Timer::current().call_sites() {
        let first = site.earliest.saturating_duration_since(now);
        let last = site.latest.saturating_duration_since(now);
        let (pending, place) = (site.pending, site.location);
        let line = writeln!(page, "{pending:7}  {first:16.0?}  {last:15.0?}  {place}");
        line.expect("a string has room");
    }
    page
}

async fn get_page(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut client = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    client.read_to_string(&mut response).await?;
    Ok(response.split("\r\n\r\n").nth(1).unwrap_or("").to_owned())
}

/// Leaks timers, and returns the page for operators.
pub(crate) async fn run() -> io::Result<String> {
    let app = Router::new()
        .route("/order", get(order))
        .route("/debug/timers", get(timers));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    get_page(address, "/order").await?;
    while Timer::current().metrics().pending() < LEAKED {
        sleep(Duration::from_millis(10)).await;
    }
    get_page(address, "/debug/timers").await
}

#[tokio::main]
async fn main() -> io::Result<()> {
    print!("{}", run().await?);
    Ok(())
}

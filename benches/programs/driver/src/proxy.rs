//! A reverse proxy of hyper, which limits how long a client takes to send a request.

use std::time::Duration;

use anyhow::Result;
use hyper::{Request, Uri, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::net::TcpListener;

/// Forwards what clients send to `address` to the server behind the proxy.
pub(crate) async fn run(address: String, upstream: String, limit: Option<Duration>) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    let mut server = http1::Builder::new();
    // The limit is hyper's default, which needs the timer.
    server.timer(TokioTimer::new()).header_read_timeout(limit);
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .build_http::<Incoming>();
    loop {
        let (connection, _) = listener.accept().await?;
        connection.set_nodelay(true)?;
        let (client, upstream) = (client.clone(), upstream.clone());
        let forward = service_fn(move |mut request: Request<Incoming>| {
            let path = request.uri().path_and_query();
            let path = path.map_or("/", |path| path.as_str());
            let uri = format!("http://{upstream}{path}").parse::<Uri>();
            let client = client.clone();
            async move {
                *request.uri_mut() = uri?;
                anyhow::Ok(client.request(request).await?)
            }
        });
        let connection = server.serve_connection(TokioIo::new(connection), forward);
        tokio::spawn(async {
            // A client may disconnect at any time.
            let _ = connection.await;
        });
    }
}

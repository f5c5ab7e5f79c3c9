//! A reverse proxy of hyper, which limits how long a client takes to send a request. `proxy.sh` starts it.

use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use hyper::{Request, Uri, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::net::TcpListener;

#[derive(Parser)]
struct Options {
    /// The address to listen on
    address: String,
    /// The address of the server behind the proxy
    upstream: String,
    #[arg(long, env = "WORKERS", default_value_t = 2)]
    workers: usize,
    /// Sets no limit, which shows the most that a timer can gain
    #[arg(long)]
    no_timeout: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.workers)
        .enable_all()
        .build()?;
    let listener = runtime.block_on(TcpListener::bind(&options.address))?;
    // The task that accepts runs on a worker, as the tasks of the connections do.
    runtime.block_on(runtime.spawn(serve(listener, options)))?
}

async fn serve(listener: TcpListener, options: Options) -> Result<()> {
    let mut server = http1::Builder::new();
    // hyper's default. It needs the timer.
    let limit = (!options.no_timeout).then_some(Duration::from_secs(30));
    server.timer(TokioTimer::new()).header_read_timeout(limit);
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .build_http::<Incoming>();
    loop {
        let (connection, _) = listener.accept().await?;
        connection.set_nodelay(true)?;
        let (client, upstream) = (client.clone(), options.upstream.clone());
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

//! One budget for a request, over two servers and a database.
//!
//! ```text
//! cargo run -p tokio-wheel-util --example deadline --features http,serve
//! ```
//!
//! The frontend gives each request 300 ms. It asks the backend, and tells it in a header how much time is left. The
//! backend asks a database that speaks as redis does. Its own limit of 1 s is longer, so it costs nothing: the budget of
//! the frontend ends the query. When the budget is over, both servers stop at once, and say which limit it was.

use std::{
    error::Error,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router, body::Body, extract::State, middleware::map_response, response::Response, routing::get,
};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_wheel::{Duration, Instant, sleep};
use tokio_wheel_util::{
    deadline::{Exceeded, remaining, within},
    http::{EXPECTED_RQ_TIMEOUT_MS, TimeoutHeaderLayer, TimeoutLayer},
    serve,
};
use tower::{Layer as _, ServiceExt as _, service_fn};

type BoxError = Box<dyn Error + Send + Sync>;

/// What the servers have done, in its order.
pub(crate) type Steps = Arc<Mutex<Vec<&'static str>>>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    for query in [50, 2_000].map(Duration::from_millis) {
        let frontend = start(query, &Steps::default()).await?;
        let start = Instant::now();
        let (status, text) = ask(frontend, "/").await?;
        println!(
            "a query of {query:?}: {status} {text:?} after {:?}",
            start.elapsed()
        );
    }
    Ok(())
}

/// Starts a database whose queries take so long, the backend and the frontend. Returns the address of the frontend.
pub(crate) async fn start(query: Duration, steps: &Steps) -> io::Result<SocketAddr> {
    let listen = async || TcpListener::bind("127.0.0.1:0").await;
    let (database, backend, frontend) = (listen().await?, listen().await?, listen().await?);
    let addresses = (
        database.local_addr()?,
        backend.local_addr()?,
        frontend.local_addr()?,
    );
    tokio::spawn(serve_database(database, query));

    let limit =
        |ms| TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_millis(ms));
    let app = Router::new()
        .route("/user", get(user))
        .layer((
            map_response(report),
            limit(10_000).header(EXPECTED_RQ_TIMEOUT_MS),
        ))
        .with_state((addresses.0, steps.clone()));
    tokio::spawn(async { serve(backend, app).await });

    let app = Router::new()
        .route("/", get(page))
        .layer((map_response(report), limit(300)))
        .with_state((addresses.1, steps.clone()));
    tokio::spawn(async { serve(frontend, app).await });
    Ok(addresses.2)
}

type Upstream = (SocketAddr, Steps);

/// The handler of the frontend.
async fn page(State((backend, steps)): State<Upstream>) -> Result<String, StatusCode> {
    steps.lock().unwrap().push("frontend asks");
    let answer = ask(backend, "/user").await;
    steps.lock().unwrap().push("frontend got an answer");
    match answer {
        Ok((StatusCode::OK, user)) => Ok(format!("hello {user}")),
        // The header has whole milliseconds, so the backend may give up a little earlier.
        Ok((StatusCode::GATEWAY_TIMEOUT, _)) => Err(StatusCode::GATEWAY_TIMEOUT),
        _ => Err(StatusCode::BAD_GATEWAY),
    }
}

/// The handler of the backend.
async fn user(State((database, steps)): State<Upstream>) -> Result<String, StatusCode> {
    println!("the backend has {:?} left", remaining());
    steps.lock().unwrap().push("backend asks");
    let user = within(Duration::from_secs(1), query(database)).named("query");
    let user = user.await.unwrap_or_else(|exceeded| Err(exceeded.into()));
    steps.lock().unwrap().push("backend got an answer");
    user.map_err(|error| match Exceeded::find(&error) {
        Some(_) => StatusCode::GATEWAY_TIMEOUT,
        None => StatusCode::BAD_GATEWAY,
    })
}

/// Says which limit has ended a request.
async fn report(response: Response) -> Response {
    if let Some(exceeded) = response.extensions().get::<Exceeded>() {
        println!("{exceeded}");
    }
    response
}

/// Sends a request, and tells the server how much time is left.
pub(crate) async fn ask(to: SocketAddr, path: &str) -> Result<(StatusCode, String), BoxError> {
    let client = service_fn(async |request: Request<Body>| {
        let io = TokioIo::new(TcpStream::connect(to).await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
        tokio::spawn(connection);
        Ok::<_, BoxError>(sender.send_request(request).await?)
    });
    let request = Request::get(path)
        .header("host", "example")
        .body(Body::empty())?;
    let response = TimeoutHeaderLayer::default()
        .layer(client)
        .oneshot(request)
        .await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

async fn query(database: SocketAddr) -> io::Result<String> {
    let mut connection = TcpStream::connect(database).await?;
    connection.write_all(b"GET user\r\n").await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    Ok(answer.trim_start_matches('+').trim_end().to_owned())
}

async fn serve_database(listener: TcpListener, takes: Duration) -> io::Result<()> {
    loop {
        let (connection, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut connection = BufReader::new(connection);
            connection.read_line(&mut String::new()).await?;
            sleep(takes).await;
            connection.write_all(b"+alice\r\n").await
        });
    }
}

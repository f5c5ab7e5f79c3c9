//! A tonic server with limits for requests and connections, and a graceful shutdown. It passes on its deadlines.
//!
//! The program runs two servers of the service `grpc.health.v1.Health`. The gateway asks the backend. A client's
//! deadline reaches the backend: less the time that has passed, and never later than the limit of the gateway.
//!
//! ```text
//! cargo run -p tonic-server
//! grpcurl -plaintext -max-time 2 -d '{"service": "slow"}' 127.0.0.1:50051 grpc.health.v1.Health/Check
//! ```
//!
//! Press Ctrl-C while a request is in flight: the request gets its response, and then the process ends. Both servers
//! shut down at once here, so a request that the gateway has not yet passed on may fail. Real servers are two processes.
//!
//! For your own server, copy the function `run`, and these lines of a Cargo.toml:
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.54", features = ["macros", "net", "rt-multi-thread", "signal"] }
//! tokio-wheel = "0.1"
//! tokio-wheel-util = { version = "0.1", features = ["http", "serve"] }
//! tonic = "0.14"
//! tower = "0.5"
//! ```

#[cfg(test)]
mod tests;

use std::{error::Error, future::Future, io};

use tokio::net::TcpListener;
use tokio_wheel::{Duration, sleep};
use tokio_wheel_util::{
    http::{TimeoutHeader, TimeoutHeaderLayer, TimeoutLayer},
    hyper::{Connections, Counts, Limits},
    serve,
};
use tonic::{
    Code, Request, Response, Status,
    codegen::BoxStream,
    service::Routes,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_client::HealthClient,
    health_server::{Health, HealthServer},
};
use tower::ServiceBuilder;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let backend = TcpListener::bind("127.0.0.1:50052").await?;
    let gateway = TcpListener::bind("127.0.0.1:50051").await?;
    let channel = Endpoint::from_static("http://127.0.0.1:50052").connect_lazy();
    let signal = async || tokio::signal::ctrl_c().await.expect("Ctrl-C must work");
    let counts = tokio::try_join!(
        run(gateway, Gateway::new(channel), signal()),
        run(backend, Backend, signal()),
    )?;
    println!("{counts:?}");
    Ok(())
}

/// Serves clients until `signal` is ready. Returns how their connections ended.
pub(crate) async fn run(
    listener: TcpListener,
    service: impl Health,
    signal: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Counts> {
    // The limit of a request without a `grpc-timeout`, and of a request with a longer one.
    let limit = TimeoutLayer::new(Duration::from_secs(3)).grpc();
    let app = ServiceBuilder::new()
        .layer(limit)
        .service(Routes::new(HealthServer::new(service)).prepare());
    let limits = Limits::new()
        .idle(Duration::from_secs(60))
        .max_age(Duration::from_secs(600))
        .grace(Duration::from_secs(20))
        .max_connections(10_000);
    let connections = Connections::new(limits);
    serve(listener, app)
        .connections(&connections)
        .header_timeout(Duration::from_secs(2))
        .http(|builder| {
            // Finds clients that have vanished during a call.
            builder.http2().keep_alive_interval(Duration::from_secs(20));
        })
        .with_graceful_shutdown(signal)
        .on_error(|error| eprintln!("{error}"))
        .await?;
    Ok(connections.counts())
}

/// Asks the backend, within the deadline of its own client.
pub(crate) struct Gateway(HealthClient<TimeoutHeader<Channel>>);

impl Gateway {
    pub(crate) fn new(channel: Channel) -> Self {
        let channel = ServiceBuilder::new()
            .layer(TimeoutHeaderLayer::grpc())
            .service(channel);
        Self(HealthClient::new(channel))
    }
}

#[tonic::async_trait]
impl Health for Gateway {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        // The layer around the channel tells the backend how much time this handler has left.
        let onward = Request::new(request.into_inner());
        let answer = self.0.clone().check(onward).await;
        answer.map_err(|status| match status.code() {
            // tonic's channel also obeys the deadline, and says `Cancelled` then.
            Code::Cancelled => Status::deadline_exceeded(status.message()),
            _ => status,
        })
    }

    type WatchStream = BoxStream<HealthCheckResponse>;

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("the example answers only `Check`"))
    }
}

/// Takes an hour for the service "slow", 100 ms for "work", and no time for others.
pub(crate) struct Backend;

#[tonic::async_trait]
impl Health for Backend {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match request.get_ref().service.as_str() {
            "slow" => sleep(Duration::from_secs(3_600)).await,
            "work" => sleep(Duration::from_millis(100)).await,
            _ => {}
        }
        let status = ServingStatus::Serving.into();
        Ok(Response::new(HealthCheckResponse { status }))
    }

    type WatchStream = BoxStream<HealthCheckResponse>;

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("the example answers only `Check`"))
    }
}

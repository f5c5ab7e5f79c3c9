//! Exports the metrics of a timer to Prometheus.
//!
//! ```text
//! cargo run --example prometheus
//! cargo run --example prometheus -- 127.0.0.1:9184
//! ```
//!
//! The first command serves the page `/metrics`, reads it once, prints it and ends. The second command serves the page
//! until it is stopped.
//!
//! The counters of a timer only grow, and a reading changes nothing. So the page needs no state of its own, and any
//! number of exporters can read the same timer.

use std::{env, fmt, io, net::SocketAddr, sync::Arc};

use axum::{
    Router, extract::State, http::header::CONTENT_TYPE, response::IntoResponse, routing::get,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_wheel::{Duration, Timer, sleep, timeout};

/// A timer whose metrics the registry reads at each scrape.
#[derive(Debug)]
struct TimerMetrics(Timer);

impl Collector for TimerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // One reading, so that the numbers of a page belong together.
        let metrics = self.0.metrics();
        let counters = [
            ("registered", "Entries registered", metrics.registered()),
            ("canceled", "Entries canceled", metrics.cancelled()),
            ("fired", "Entries fired", metrics.fired()),
            (
                "driver_wakeups",
                "Wake-ups of the driver",
                metrics.driver_wakeups(),
            ),
            (
                "blocks",
                "Blocks of workers that the watch has ended",
                metrics.blocks(),
            ),
        ];
        for (name, help, count) in counters {
            let counter = ConstCounter::new(count);
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        let pending = ConstGauge::new(i64::try_from(metrics.pending()).unwrap_or(i64::MAX));
        let kind = pending.metric_type();
        pending.encode(encoder.encode_descriptor("pending", "Entries pending", None, kind)?)?;

        // The encoder adds the buckets up, as Prometheus expects it.
        let lateness = metrics.lateness();
        let buckets: Vec<_> = lateness
            .buckets()
            .map(|(bound, count)| match bound {
                Duration::MAX => (f64::INFINITY, count),
                _ => (bound.as_secs_f64(), count),
            })
            .collect();
        let (help, kind) = ("Time from deadlines to their firing", MetricType::Histogram);
        encoder
            .encode_descriptor("lateness", help, Some(&Unit::Seconds), kind)?
            .encode_histogram::<NoLabelSet>(
                lateness.sum().as_secs_f64(),
                lateness.count(),
                &buckets,
                None,
            )
    }
}

async fn page(State(registry): State<Arc<Registry>>) -> impl IntoResponse {
    let mut page = String::new();
    text::encode(&mut page, &registry).expect("a string takes any text");
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, content_type)], page)
}

/// Serves the metrics of a timer.
async fn serve(listener: TcpListener, timer: Timer) -> io::Result<()> {
    let mut registry = Registry::with_prefix("tokio_wheel");
    registry.register_collector(Box::new(TimerMetrics(timer)));
    let router = Router::new()
        .route("/metrics", get(page))
        .with_state(Arc::new(registry));
    axum::serve(listener, router).await
}

/// Reads the page as Prometheus does.
async fn scrape(server: SocketAddr) -> io::Result<String> {
    let mut connection = TcpStream::connect(server).await?;
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    connection.read_to_string(&mut response).await?;
    Ok(response)
}

/// Gives the timer something to count, and returns the page.
pub(crate) async fn run() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(serve(listener, Timer::current()));

    for _ in 0..3 {
        sleep(Duration::from_millis(2)).await;
    }
    let answer = tokio::task::yield_now();
    timeout(Duration::from_secs(30), answer).await?;

    let page = scrape(address).await?;
    server.abort();
    Ok(page)
}

#[tokio::main]
async fn main() -> io::Result<()> {
    if let Some(address) = env::args().nth(1) {
        return serve(TcpListener::bind(address).await?, Timer::current()).await;
    }
    let page = run().await?;
    println!("{page}");
    assert!(page.contains("\ntokio_wheel_fired_total 3\n"));
    assert!(page.contains("\ntokio_wheel_lateness_seconds_count 3\n"));
    Ok(())
}

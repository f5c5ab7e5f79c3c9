//! Tests the entries of connections in their shared timer. Users of the crate cannot see this timer.

use std::{convert::Infallible, time::Duration};

use ::hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    task::{JoinHandle, yield_now},
    time::{Instant, sleep},
};

use super::{alarms::Alarms, shared::Shared, *};

const SECOND: Duration = Duration::from_secs(1);

/// Responds to `/slow` after 100 s, and to all other paths at once.
async fn hello(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    if request.uri().path() == "/slow" {
        sleep(100 * SECOND).await;
    }
    Ok(Response::new("hello".to_owned()))
}

/// Opens a connection. Returns the client's side of the connection, and a task that drives the connection.
/// When the connection ends, the task returns the reason and the age of the connection.
fn connect(connections: &Connections) -> (DuplexStream, JoinHandle<(Reason, Duration)>) {
    let opened = Instant::now();
    let (client, server) = duplex(1_024);
    let lifetime = connections.open().unwrap();
    let service = lifetime.service(service_fn(hello));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service);
    let end = tokio::spawn(async move {
        let ended = lifetime.drive(connection).await;
        (ended.reason(), opened.elapsed())
    });
    (client, end)
}

async fn settle() {
    for _ in 0..64 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_one_entry() {
    const MANY: u64 = 50;
    let limits = Limits::new()
        .idle(10 * SECOND)
        .min_idle(5 * SECOND)
        .max_age(100 * SECOND)
        .jitter(0.0);
    let connections = Connections::new(limits);
    let mut all: Vec<_> = (0..MANY).map(|_| connect(&connections)).collect();
    settle().await;
    let timer = connections.alarms().timer().unwrap();
    let counts = || {
        let metrics = timer.metrics();
        (metrics.registered(), metrics.pending())
    };
    assert_eq!(counts(), (MANY, MANY));
    // Each entry fires once in 9 s and is registered again. A request registers nothing.
    for round in 1..=5 {
        for _ in 0..30 {
            sleep(Duration::from_millis(300)).await;
            for (client, _) in &mut all {
                client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
                assert!(client.read(&mut [0; 1_024]).await.unwrap() > 0);
            }
        }
        let (registered, pending) = counts();
        assert_eq!(pending, MANY);
        assert!(
            registered <= (round + 1) * MANY,
            "{registered} after {round}"
        );
    }
    // When the pressure rises, each entry fires at most once.
    let (before, _) = counts();
    connections.set_pressure(0.5);
    connections.set_pressure(0.0);
    settle().await;
    let (registered, pending) = counts();
    assert_eq!(pending, MANY);
    assert!(registered <= before + MANY);
    connections.shutdown().await;
    assert_eq!(counts().1, 0);
    assert_eq!(timer.metrics().lateness().sum(), Duration::ZERO);
}

/// Under pressure, the idle limit may be very short. Even then, a connection with a request in flight must
/// not wake more often than once a second.
#[tokio::test(start_paused = true)]
async fn a_request_in_flight_wakes_its_connection_once_a_second() {
    for limits in [
        Limits::new().idle(Duration::ZERO),
        Limits::new().idle(60 * SECOND).min_idle(Duration::ZERO),
    ] {
        let connections = Connections::new(limits);
        connections.set_pressure(1.0);
        let (mut client, end) = connect(&connections);
        let request = b"GET /slow HTTP/1.1\r\n\r\n";
        client.write_all(request).await.unwrap();
        settle().await;
        let timer = connections.alarms().timer().unwrap();
        assert_eq!(end.await.unwrap(), (Reason::Idle, 100 * SECOND));
        let fired = timer.metrics().fired();
        assert!((50..=100).contains(&fired), "{fired}");
    }
}

/// A connection without a limit also has an entry, because a shutdown must wake the connection. The entry
/// fires once a day.
#[tokio::test(start_paused = true)]
async fn a_connection_without_limits_wakes_up_once_a_day() {
    let connections = Connections::new(Limits::new().max_age(Duration::MAX));
    let (_client, end) = connect(&connections);
    settle().await;
    let timer = connections.alarms().timer().unwrap();
    sleep(SECOND * 86_400 * 10 + SECOND).await;
    assert_eq!(timer.metrics().fired(), 10);
    connections.shutdown().await;
    assert_eq!(end.await.unwrap().0, Reason::Shutdown);
}

#[tokio::test(start_paused = true)]
async fn a_timer_with_a_long_lead_is_replaced() {
    let hour = 3_600 * SECOND;
    let limits = Limits::new().idle(25 * hour).min_idle(hour);
    let connections = Connections::new(limits);
    let (_client, end) = connect(&connections);
    settle().await;
    let first = connections.alarms().timer().unwrap();
    let is_current = || {
        let current = connections.alarms().timer();
        current.is_some_and(|current| current.is_of(first.core()))
    };
    // Each rise of the pressure makes the timer leap by a day.
    let rises = 100 * 365;
    for _ in 0..rises {
        connections.set_pressure(1.0);
        connections.set_pressure(0.0);
    }
    assert!(is_current());
    connections.set_pressure(1.0);
    connections.set_pressure(0.0);
    assert!(!is_current());
    settle().await;
    assert_eq!(first.metrics().pending(), 0);
    let second = connections.alarms().timer().unwrap();
    assert_eq!(
        (second.metrics().pending(), second.lead()),
        (1, Duration::ZERO)
    );

    // A leap of the second timer also wakes the connection.
    sleep(hour / 2).await;
    connections.set_pressure(1.0);
    assert_eq!(end.await.unwrap(), (Reason::Idle, hour));
}

impl Connections {
    fn alarms(&self) -> &Alarms {
        let shared: &Shared = &self.shared;
        &shared.alarms
    }
}

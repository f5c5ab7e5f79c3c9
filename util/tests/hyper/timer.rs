//! Tests `WheelTimer` in hyper's own connections.
//!
//! Most tests compare it with hyper-util's `TokioTimer` under the paused clock, where all instants must be equal.

use std::{convert::Infallible, fmt::Debug, future::Future, pin::Pin, task::Waker};

use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client,
    rt::{self, Timer as _},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use static_assertions::assert_impl_all;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex},
    join,
};
use tokio_wheel::{Duration, Instant, Timer, advance, sleep};
use tokio_wheel_util::hyper::WheelTimer;

use crate::{
    server::{in_time, sockets},
    support::{self, Wakes, log::Log, ms, poll, poll_once, secs},
};

assert_impl_all!(WheelTimer: rt::Timer, Send, Sync, Unpin, Clone, Debug, Default);

/// Any of the timers that the tests compare.
trait AnyTimer: rt::Timer + Clone + Send + Sync + 'static {}

impl<T: rt::Timer + Clone + Send + Sync + 'static> AnyTimer for T {}

/// Runs each body with hyper-util's timer and with ours. Both logs must be equal.
macro_rules! same_as_tokio_timer {
    ($($(#[$attribute:meta])* async fn $name:ident($timer:ident, $log:ident) $body:block)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            async fn body($timer: impl AnyTimer, $log: &Log) $body
            let log_of = |body: Pin<Box<dyn Future<Output = Log>>>| {
                support::paused().block_on(body).into_entries()
            };
            let theirs = log_of(Box::pin(async {
                let log = Log::new();
                body(TokioTimer::new(), &log).await;
                log
            }));
            let ours = log_of(Box::pin(async {
                let log = Log::new();
                body(WheelTimer::new(), &log).await;
                assert!(Timer::current().metrics().registered() > 0);
                log
            }));
            assert!(!ours.is_empty());
            assert_eq!(ours, theirs, "left: WheelTimer, right: TokioTimer");
        }
    )*};
}

/// Responds after the number of milliseconds in the path.
async fn answer(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let millis = request.uri().path().trim_start_matches('/');
    if let Ok(millis) = millis.parse() {
        sleep(ms(millis)).await;
    }
    Ok(Response::new("answer".to_owned()))
}

/// Returns two connected streams, with as much room as a socket's buffers.
fn connected() -> (DuplexStream, DuplexStream) {
    duplex(65_536)
}

/// Serves one connection. An `Err` tells whether hyper calls the error a timeout.
async fn serve_http1(
    timer: impl AnyTimer,
    limit: Duration,
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Result<(), bool> {
    http1::Builder::new()
        .timer(timer)
        .header_read_timeout(limit)
        .serve_connection(TokioIo::new(io), service_fn(answer))
        .await
        .map_err(|error| error.is_timeout())
}

/// Serves one connection of HTTP/2. The server sends a ping after `interval` without a frame and waits `limit` for
/// the answer. An `Err` tells whether hyper calls the error a timeout.
async fn serve_http2(
    timer: impl AnyTimer,
    interval: Duration,
    limit: Duration,
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Result<(), bool> {
    http2::Builder::new(TokioExecutor::new())
        .timer(timer)
        .keep_alive_interval(interval)
        .keep_alive_timeout(limit)
        .serve_connection(TokioIo::new(io), service_fn(answer))
        .await
        .map_err(|error| error.is_timeout())
}

/// Sends a part of a request after each `pause` until the server closes the connection.
async fn dribble(io: &mut (impl AsyncWrite + Unpin), pause: Duration) {
    let mut part = "GET /0 HTTP/1.1\r\n";
    while io.write_all(part.as_bytes()).await.is_ok() {
        sleep(pause).await;
        part = "slow: yes\r\n";
    }
}

async fn get<B>(client: &mut client::conn::http1::SendRequest<B>, path: &str) -> StatusCode
where
    B: hyper::body::Body + Default + 'static,
{
    let request = Request::get(path).header("host", "test");
    client.ready().await.unwrap();
    let request = client.send_request(request.body(B::default()).unwrap());
    let response = request.await.unwrap();
    let status = response.status();
    assert_eq!(response.collect().await.unwrap().to_bytes(), "answer");
    status
}

/// A client that writes HTTP/2 frames by hand. A real client would answer pings.
mod raw {
    use super::*;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];
    const SETTINGS: u8 = 4;
    pub(super) const PING: u8 = 6;
    pub(super) const GOAWAY: u8 = 7;
    const ACK: u8 = 1;

    #[derive(Debug)]
    pub(super) struct Frame {
        pub(super) kind: u8,
        flags: u8,
        payload: Vec<u8>,
    }

    pub(super) async fn greet(io: &mut (impl AsyncWrite + Unpin)) {
        io.write_all(PREFACE).await.unwrap();
        settings(io).await;
    }

    pub(super) async fn settings(io: &mut (impl AsyncWrite + Unpin)) {
        io.write_all(EMPTY_SETTINGS).await.unwrap();
    }

    /// Returns the next frame, or `None` at the end of the stream.
    pub(super) async fn receive(io: &mut (impl AsyncRead + Unpin)) -> Option<Frame> {
        let mut head = [0; 9];
        io.read_exact(&mut head).await.ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        io.read_exact(&mut payload).await.ok()?;
        let [_, _, _, kind, flags, ..] = head;
        Some(Frame {
            kind,
            flags,
            payload,
        })
    }

    pub(super) async fn pong(io: &mut (impl AsyncWrite + Unpin), ping: &Frame) {
        assert_eq!((ping.kind, ping.flags, ping.payload.len()), (PING, 0, 8));
        io.write_all(&[0, 0, 8, PING, ACK, 0, 0, 0, 0])
            .await
            .unwrap();
        io.write_all(&ping.payload).await.unwrap();
    }
}

same_as_tokio_timer! {
    async fn sleeps_take_as_long(timer, log) {
        for micros in [0, 1, 999, 1_000, 1_001, 2_500, 70_000, 5_000_000] {
            let start = timer.now();
            timer.sleep(Duration::from_micros(micros)).await;
            log.note(timer.now() - start);
            timer.sleep_until(start + Duration::from_micros(2 * micros)).await;
            log.note(timer.now() - start);
        }
        timer.sleep_until(timer.now() - secs(1)).await;
        log.note("past");
    }

    async fn resets_take_as_long(timer, log) {
        let start = timer.now();
        let mut sleep = timer.sleep(secs(5));
        timer.reset(&mut sleep, start + secs(7));
        log.note(poll_once(&mut sleep).await.is_ready());
        timer.reset(&mut sleep, start + secs(9));
        log.note(poll_once(&mut sleep).await.is_ready());
        timer.reset(&mut sleep, start + secs(2));
        sleep.as_mut().await;
        log.note("earlier");
        timer.reset(&mut sleep, start + secs(3));
        sleep.as_mut().await;
        log.note("again");
        timer.reset(&mut sleep, start);
        sleep.as_mut().await;
        log.note("past");
    }

    async fn a_client_that_dribbles_headers_is_closed(timer, log) {
        for limit in [ms(1_000), Duration::from_micros(2_500), ms(100)] {
            let (mut client, server) = connected();
            let server = async {
                log.note(serve_http1(timer.clone(), limit, server).await);
            };
            join!(server, dribble(&mut client, ms(30)));
            log.note("client gave up");
        }
    }

    async fn a_client_that_ignores_pings_is_closed(timer, log) {
        for (interval, limit) in [(secs(10), secs(3)), (ms(3), secs(60)), (ms(1), ms(1))] {
            let (mut client, server) = connected();
            let server = async {
                log.note(serve_http2(timer.clone(), interval, limit, server).await);
            };
            let client = async {
                raw::greet(&mut client).await;
                while let Some(frame) = raw::receive(&mut client).await {
                    log.note(frame.kind);
                }
            };
            join!(server, client);
        }
    }

    async fn a_client_that_answers_pings_lives_on(timer, log) {
        let (mut client, server) = connected();
        let server = async {
            log.note(serve_http2(timer, secs(10), secs(3), server).await);
        };
        let client = async {
            raw::greet(&mut client).await;
            let mut pings = 0;
            while let Some(frame) = raw::receive(&mut client).await {
                log.note(frame.kind);
                if frame.kind == raw::PING && pings < 20 {
                    sleep(ms(pings * 130)).await;
                    raw::pong(&mut client, &frame).await;
                    pings += 1;
                }
            }
        };
        join!(server, client);
    }

}

/// Checks the instants themselves. The comparison above would accept timers that are all wrong.
#[tokio::test(start_paused = true)]
async fn limits_are_kept_to_the_millisecond() {
    let start = Instant::now();
    let (mut client, server) = connected();
    let server = serve_http1(WheelTimer::new(), ms(1_000), server);
    let server = async { (server.await, start.elapsed()) };
    let (served, ()) = join!(server, dribble(&mut client, ms(30)));
    assert_eq!(served, (Err(true), ms(1_000)));

    let start = Instant::now();
    let (mut client, server) = connected();
    raw::greet(&mut client).await;
    let served = serve_http2(WheelTimer::new(), secs(10), secs(3), server).await;
    assert_eq!((served, start.elapsed()), (Err(true), secs(13)));
    let mut frames = Vec::new();
    while let Some(frame) = raw::receive(&mut client).await {
        frames.push(frame.kind);
    }
    assert!(frames.ends_with(&[raw::PING, raw::GOAWAY]), "{frames:?}");
}

fn address(sleep: &Pin<Box<dyn rt::Sleep>>) -> *const () {
    std::ptr::from_ref(&**sleep).cast()
}

#[tokio::test(start_paused = true)]
async fn reset_is_in_place() {
    let timer = WheelTimer::new();
    let counts = || {
        let metrics = Timer::current().metrics();
        (metrics.registered(), metrics.pending())
    };
    let mut sleep = timer.sleep(secs(5));
    let first = address(&sleep);
    let (wakes, waker) = Wakes::new();
    assert_eq!(counts(), (0, 0));
    assert!(poll(&mut sleep, &waker).is_pending());
    assert_eq!(counts(), (1, 1));

    for seconds in [10, 20, 3, 600, 1, 30] {
        timer.reset(&mut sleep, timer.now() + secs(seconds));
        assert_eq!(counts(), (1, 1), "before a poll");
        assert!(poll(&mut sleep, &waker).is_pending());
        assert_eq!(counts(), (1, 1), "after a poll");
        assert_eq!(address(&sleep), first);
    }
    advance(ms(29_999)).await;
    assert_eq!(wakes.count(), 0);
    advance(ms(1)).await;
    assert_eq!(wakes.count(), 1);
    assert!(poll(&mut sleep, &waker).is_ready());

    // A reset also moves a sleep that has fired.
    timer.reset(&mut sleep, timer.now() + secs(1));
    assert!(poll(&mut sleep, &waker).is_pending());
    assert_eq!((address(&sleep), counts()), (first, (2, 1)));
    drop(sleep);
    assert_eq!(counts(), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_sleep_stays_with_its_timer() {
    let [first, second] = [(); 2].map(|()| Timer::builder().build().unwrap());
    let registered = || [&first, &second, &Timer::current()].map(|it| it.metrics().registered());
    let one = WheelTimer::with_timer(&first);
    let other = WheelTimer::with_timer(&second);

    one.sleep(secs(1)).await;
    assert_eq!(registered(), [1, 0, 0]);
    other.sleep_until(other.now() + secs(1)).await;
    assert_eq!(registered(), [1, 1, 0]);

    let mut sleep = one.sleep(secs(1));
    for timer in [&other, &WheelTimer::default()] {
        timer.reset(&mut sleep, timer.now() + secs(2));
        sleep.as_mut().await;
    }
    assert_eq!(registered(), [3, 1, 0]);

    // A reset replaces a foreign sleep with a new sleep on the timer that resets.
    let mut sleep = TokioTimer::new().sleep(secs(1));
    let start = Instant::now();
    other.clone().reset(&mut sleep, other.now() + secs(2));
    sleep.await;
    assert_eq!((registered(), start.elapsed()), ([3, 2, 0], secs(2)));
}

#[tokio::test(start_paused = true)]
async fn far_deadlines_are_never_reached() {
    let explicit = WheelTimer::with_timer(&Timer::current());
    for timer in [WheelTimer::new(), explicit] {
        let far = timer.now() + secs(86_400 * 365 * 200);
        let mut reset = timer.sleep(ms(1));
        timer.reset(&mut reset, far);
        for mut sleep in [timer.sleep(Duration::MAX), timer.sleep_until(far), reset] {
            assert!(poll(&mut sleep, Waker::noop()).is_pending());
            advance(secs(86_400 * 365)).await;
            assert!(poll(&mut sleep, Waker::noop()).is_pending());
        }
    }
}

#[test]
fn a_sleep_can_be_created_outside_a_runtime() {
    let sleep = WheelTimer::new().sleep(secs(1));
    support::paused().block_on(async {
        let start = Instant::now();
        sleep.await;
        assert!(start.elapsed() <= secs(1));
        assert_eq!(Timer::current().metrics().fired(), 1);
    });
}

/// The clock and the sockets are real: a limit is never early, and it ends the connection at some time.
#[tokio::test]
async fn a_slow_client_is_closed_and_a_fast_one_served() {
    let limit = ms(300);
    let (mut slow, server) = sockets().await;
    let start = Instant::now();
    let server = async {
        let served = serve_http1(WheelTimer::new(), limit, server).await;
        assert_eq!(served, Err(true));
        assert!(start.elapsed() >= limit);
    };
    let slow = async { dribble(&mut slow, ms(20)).await };

    let (fast, other) = sockets().await;
    let handshake = client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(fast));
    let (mut fast, connection) = handshake.await.unwrap();
    // This limit is long enough for a busy machine.
    let other = serve_http1(WheelTimer::new(), secs(60), other);
    let fast = async {
        for _ in 0..100 {
            assert_eq!(get(&mut fast, "/0").await, StatusCode::OK);
        }
        assert_eq!(get(&mut fast, "/400").await, StatusCode::OK);
        drop(fast);
    };
    let all = async { join!(server, slow, other, connection, fast) };
    let ((), (), other, connection, ()) = in_time(all).await;
    assert_eq!(other, Ok(()));
    connection.unwrap();
}

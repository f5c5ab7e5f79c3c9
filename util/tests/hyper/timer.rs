//! Compares `WheelTimer` with hyper-util's `TokioTimer` under the paused clock, where all instants must be equal.

use super::*;

mod theirs {
    pub(super) use hyper_util::rt::TokioTimer as Timer;
}

mod ours {
    pub(super) use tokio_wheel_util::hyper::WheelTimer as Timer;
}

/// Serves one connection. An `Err` tells whether hyper calls the error a timeout.
async fn serve_http1(
    timer: impl rt::Timer + Send + Sync + 'static,
    limit: Duration,
    io: DuplexStream,
) -> Result<(), bool> {
    http1::Builder::new()
        .timer(timer)
        .header_read_timeout(limit)
        .serve_connection(TokioIo::new(io), service_fn(answer))
        .await
        .map_err(|error| error.is_timeout())
}

/// Sends a part of a request after each `pause` until the server closes the connection.
async fn dribble(io: &mut (impl AsyncWrite + Unpin), pause: Duration) {
    let mut part = "GET /none HTTP/1.1\r\n";
    while io.write_all(part.as_bytes()).await.is_ok() {
        sleep(pause).await;
        part = "slow: yes\r\n";
    }
}

side_by_side! {
    (theirs) (ours)

    async fn resets_take_as_long(time, log) {
        let timer = time::Timer::new();
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

    async fn a_client_that_dribbles_headers_is_closed(time, log) {
        let timer = time::Timer::new();
        for limit in [ms(1_000), Duration::from_micros(2_500), ms(100)] {
            let (mut client, server) = duplex(65_536);
            let server = async {
                log.note(serve_http1(timer.clone(), limit, server).await);
            };
            join!(server, dribble(&mut client, ms(30)));
            log.note("client gave up");
        }
    }
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
    assert!(poll(&mut sleep, Waker::noop()).is_pending());
    for seconds in [10, 20, 3, 600, 1, 30] {
        timer.reset(&mut sleep, timer.now() + secs(seconds));
        assert!(poll(&mut sleep, Waker::noop()).is_pending());
        assert_eq!((address(&sleep), counts()), (first, (1, 1)));
    }
    // A reset also moves a sleep that has fired.
    advance(secs(30)).await;
    assert!(poll(&mut sleep, Waker::noop()).is_ready());
    timer.reset(&mut sleep, timer.now() + secs(1));
    assert!(poll(&mut sleep, Waker::noop()).is_pending());
    assert_eq!((address(&sleep), counts()), (first, (2, 1)));
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

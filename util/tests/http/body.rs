//! Tests a body with limits, poll by poll.

use axum::BoxError;
use futures_util::stream::poll_fn;
use http_body_util::StreamBody;

use super::*;

const FRAME: LimitExceeded = LimitExceeded::Frame(Duration::from_secs(10));
const BODY: LimitExceeded = LimitExceeded::Body(Duration::from_secs(60));

/// Returns the limit that the body has exceeded instead of returning a frame.
fn limit_of(frame: Option<Result<Frame<Bytes>, BoxError>>) -> Option<LimitExceeded> {
    LimitExceeded::find(&*frame.unwrap().unwrap_err())
}

/// Reads a body. Returns the number of bytes, the limit that the body has exceeded, and how long the reading took.
async fn outcome(limits: BodyLimits, parts: Parts) -> (usize, Option<LimitExceeded>, Duration) {
    let start = Instant::now();
    let (bytes, error) = read(TimeoutBody::with_limits(limits, parts)).await;
    let exceeded = error.map(|error| LimitExceeded::find(&*error).unwrap());
    (bytes, exceeded, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn each_limit_alone_and_both_together() {
    let frame = BodyLimits::new().frame_timeout(secs(10));
    let body = BodyLimits::new().body_timeout(secs(60));
    let none = BodyLimits::new();
    for (limits, pause, count, expected) in [
        (frame, 9, 20, (80, None, secs(171))),
        (frame, 11, 20, (4, Some(FRAME), secs(10))),
        (body, 9, 20, (28, Some(BODY), secs(60))),
        (body, 11, 4, (16, None, secs(33))),
        (body, 61, 2, (4, Some(BODY), secs(60))),
        (LIMITS, 9, 20, (28, Some(BODY), secs(60))),
        (LIMITS, 9, 6, (24, None, secs(45))),
        (LIMITS, 11, 20, (4, Some(FRAME), secs(10))),
        (none, 86_400, 3, (12, None, secs(2 * 86_400))),
    ] {
        let outcome = outcome(limits, Parts::every(secs(pause), count)).await;
        assert_eq!(outcome, expected, "{limits:?}, {pause} s");
    }
    assert_eq!(Timer::current().metrics().pending(), 0);
}

/// Time in which no reader waits for the body does not count.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_no_slow_body() {
    let parts = Parts::at([secs(5), secs(3_605), secs(7_210), secs(10_810)]);
    let mut body = TimeoutBody::with_limits(LIMITS, parts);
    sleep(secs(1)).await; // The first wait has not begun.
    for waits in [4, 0, 5, 0] {
        let start = Instant::now();
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!(start.elapsed(), secs(waits), "the reader must have waited");
        sleep(secs(3_600)).await;
    }
    assert!(body.frame().await.is_none());
    // The waits have used 9 s of 60 s.
    let parts = Parts::at([secs(5), secs(3_606), secs(7_206)]);
    let limits = BodyLimits::new().body_timeout(secs(6));
    let mut body = TimeoutBody::with_limits(limits, parts);
    assert!(body.frame().await.unwrap().is_ok());
    sleep(secs(3_600)).await;
    let start = Instant::now();
    // 1 s of the limit is left for this wait.
    assert!(body.frame().await.unwrap().is_ok());
    assert_eq!(start.elapsed(), secs(1));
    let late = limit_of(body.frame().await);
    assert_eq!(late, Some(LimitExceeded::Body(secs(6))));
    assert_eq!(start.elapsed(), secs(1));
}

/// Reads all frames, and works for 15 s after each second of waiting. Returns the number of frames, and the limit.
async fn read_and_work<B>(mut body: TimeoutBody<B>) -> (usize, Option<LimitExceeded>)
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let mut frames = 0;
    loop {
        tokio::select! {
            biased;
            frame = body.frame() => match frame {
                Some(Ok(_)) => frames += 1,
                Some(Err(error)) => return (frames, LimitExceeded::find(&*error)),
                None => return (frames, None),
            },
            () = sleep(secs(1)) => sleep(secs(15)).await,
        }
    }
}

/// A wait goes on while its reader does something else. A frame that has come meanwhile is in time.
#[tokio::test(start_paused = true)]
async fn a_wait_continues_while_its_reader_works() {
    let frames = BodyLimits::new().frame_timeout(secs(10));
    let body = TimeoutBody::with_limits(frames, Parts::every(secs(5), 30));
    assert_eq!(read_and_work(body).await, (30, None));
    let body = TimeoutBody::with_limits(LIMITS, Parts::every(secs(5), 30));
    let (_, exceeded) = read_and_work(body).await;
    assert_eq!(exceeded, Some(LimitExceeded::Body(secs(60))));
}

/// The client has been asked for a frame, and has sent nothing in 16 s.
#[tokio::test(start_paused = true)]
async fn a_silent_client_is_late_though_the_reader_works() {
    let start = Instant::now();
    let body = TimeoutBody::with_limits(LIMITS, Parts::at([secs(100)]));
    assert_eq!(read_and_work(body).await, (0, Some(FRAME)));
    assert_eq!(start.elapsed(), secs(16));
}

/// tower-http polls its timer first and fails here.
#[tokio::test(start_paused = true)]
async fn a_frame_that_is_ready_counts_however_late_it_is_polled() {
    let mut body = TimeoutBody::with_limits(LIMITS, Parts::at([secs(1), secs(2)]));
    let (_wakes, waker) = Wakes::new();
    assert!(poll(&mut body.frame(), &waker).is_pending());
    advance(secs(3_600)).await;
    assert!(body.frame().await.unwrap().is_ok());
    assert!(body.frame().await.unwrap().is_ok());
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_body_has_one_entry_that_each_wait_moves() {
    // The entry of `Parts` has fired when a frame is ready.
    let metrics = || Timer::current().metrics();
    let mut body = TimeoutBody::with_limits(LIMITS, Parts::every(secs(5), 10));
    assert_eq!(metrics().registered(), 0);
    for n in 0..10 {
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!(metrics().pending(), u64::from(n > 0));
    }
    assert!(body.frame().await.is_none());
    assert_eq!((metrics().pending(), metrics().cancelled()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_body_that_ended_failed_was_late_or_is_dropped() {
    let cases: [(_, fn() -> Parts); 4] = [
        ("ended", || Parts::at([secs(1)])),
        ("failed", || Parts::at([secs(1)]).broken()),
        ("was late", || Parts::at([secs(1), secs(100)])),
        ("is dropped", || Parts::at([secs(1)])),
    ];
    for (name, parts) in cases {
        let mut body = TimeoutBody::with_limits(LIMITS, parts());
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!(Timer::current().metrics().pending(), 1, "{name}");
        match name {
            "is dropped" => drop(body),
            _ => assert_eq!(body.frame().await.is_none(), name == "ended"),
        }
        // `Parts` still waits for the part that was late.
        let of_parts = u64::from(name == "was late");
        assert_eq!(Timer::current().metrics().pending(), of_parts, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_ends_after_it_has_exceeded_a_limit() {
    let mut body = TimeoutBody::new(secs(10), Parts::every(secs(11), 5).sized());
    assert!(body.frame().await.unwrap().is_ok());
    assert!(!body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(20));
    assert!(body.frame().await.unwrap().is_err());
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
    sleep(secs(60)).await;
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn size_end_data_trailers_and_errors_pass() {
    let sized = || Parts::every(ms(0), 3).sized();
    let mut body = TimeoutBody::with_limits(LIMITS, sized());
    assert_eq!(body.size_hint().exact(), Some(12));
    while !body.is_end_stream() {
        assert!(body.frame().await.unwrap().is_ok());
    }
    let unsized_body = TimeoutBody::new(secs(1), Parts::every(ms(0), 1));
    assert_eq!(unsized_body.size_hint().exact(), None);

    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", "17".parse().unwrap());
    let parts = Parts::every(secs(1), 3).then(Frame::trailers(trailers.clone()));
    let body = TimeoutBody::with_limits(LIMITS, parts);
    let collected = body.collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(collected.to_bytes(), "partpartpart");

    let body = TimeoutBody::with_limits(LIMITS, Parts::every(secs(1), 3).broken());
    let (bytes, error) = read(body).await;
    assert_eq!((bytes, error.unwrap().to_string().as_str()), (12, BROKEN));

    assert!(TimeoutBody::<String>::default().is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn any_limit_is_fine() {
    let short = BodyLimits::new()
        .frame_timeout(Duration::ZERO)
        .body_timeout(Duration::ZERO);
    let (bytes, exceeded, took) = outcome(short, Parts::every(ms(1), 2)).await;
    assert!(exceeded.is_some());
    assert_eq!((bytes, took), (4, Duration::ZERO));
    // A body without waits exceeds no limit.
    let (bytes, exceeded, _) = outcome(short, Parts::every(ms(0), 2)).await;
    assert_eq!((bytes, exceeded), (8, None));
    let long = BodyLimits::new()
        .frame_timeout(Duration::MAX)
        .body_timeout(Duration::MAX);
    let year = secs(86_400 * 365);
    let outcome = outcome(long, Parts::every(year, 3)).await;
    assert_eq!(outcome, (12, None, 2 * year));
}

#[test]
fn the_error_is_found_wherever_it_is() {
    let nested = io::Error::other(axum::Error::new(BODY));
    let errors: [(Box<dyn Error>, _); 6] = [
        (Box::new(FRAME), Some(FRAME)),
        (Box::new(axum::Error::new(FRAME)), Some(FRAME)),
        (Box::new(nested), Some(BODY)),
        (
            Box::new(io::Error::other(io::Error::other(FRAME))),
            Some(FRAME),
        ),
        (Box::new(io::Error::other(BROKEN)), None),
        (Box::new(io::Error::from(io::ErrorKind::TimedOut)), None),
    ];
    for (error, expected) in errors {
        assert_eq!(LimitExceeded::find(&*error), expected, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_beside_a_greedy_sibling_is_cut_off() {
    let mut body = TimeoutBody::new(ms(10), Parts::stuck());
    assert!(body.frame().await.unwrap().is_ok());
    let late = limit_of(beside_a_greedy_sibling(body.frame()).await);
    assert_eq!(late, Some(LimitExceeded::Frame(ms(10))));
}

/// The runtime is busy, so it polls the body once in ten milliseconds.
#[tokio::test(start_paused = true)]
async fn a_body_that_wakes_its_reader_in_each_poll_is_cut_off() {
    let start = Instant::now();
    let restless = poll_fn(|cx: &mut Context<'_>| {
        cx.waker().wake_by_ref();
        Poll::<Option<io::Result<_>>>::Pending
    });
    let read = tokio::spawn(async move {
        let mut body = TimeoutBody::with_limits(LIMITS, StreamBody::new(restless));
        (limit_of(body.frame().await), start.elapsed())
    });
    while !read.is_finished() && start.elapsed() < secs(100) {
        advance(ms(10)).await;
    }
    assert!(read.is_finished(), "the limit never ends the body");
    let (exceeded, after) = read.await.unwrap();
    assert_eq!(exceeded, Some(FRAME));
    assert!((secs(10)..secs(11)).contains(&after), "{after:?}");
}

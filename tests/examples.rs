//! Runs the examples that have a function `run`, and checks what they report.

#[expect(dead_code, reason = "`main`")]
#[path = "../examples/scheduler.rs"]
mod scheduler;

/// Each task runs at its time. A canceled task and a task that was dropped do not run.
#[tokio::test(start_paused = true)]
async fn scheduler() {
    let report = scheduler::run().await.unwrap();
    let expected = [
        (0, "a beat"),
        (50, "a poll begins"),
        (120, "the cache is warm"),
        (200, "a beat"),
        (300, "an answer: the request is not given up"),
        (350, "a poll begins"),
        (400, "a slow beat"),
        (650, "a poll begins"),
        // The deadlines of these beats were 600 and 800.
        (900, "a beat"),
        (900, "a beat"),
        (950, "a poll begins"),
        (1_000, "a beat"),
        (1_050, "the poller has ended"),
        (1_200, "a beat"),
        (1_300, "no more beats"),
        (1_500, "shutdown"),
        (1_500, "the state is saved"),
    ];
    assert_eq!(report.events, expected);
    assert_eq!(report.polls, 4);
    assert_eq!(report.left, ["the state is saved", "the figures are sent"]);
}

#[expect(dead_code, reason = "`main`")]
#[path = "../examples/prometheus.rs"]
mod prometheus;

/// The page has the counters, and buckets that add up to the number of entries that fired.
#[tokio::test]
async fn prometheus() {
    let page = prometheus::run().await.unwrap();
    let lines: Vec<_> = page.lines().collect();
    for line in [
        "# TYPE tokio_wheel_fired counter",
        "tokio_wheel_registered_total 4",
        "tokio_wheel_canceled_total 1",
        "tokio_wheel_fired_total 3",
        "tokio_wheel_pending 0",
        "# TYPE tokio_wheel_lateness_seconds histogram",
        "tokio_wheel_lateness_seconds_count 3",
        "tokio_wheel_lateness_seconds_bucket{le=\"+Inf\"} 3",
    ] {
        assert!(lines.contains(&line), "{line} is missing:\n{page}");
    }
    let buckets: Vec<u64> = (lines.iter())
        .filter_map(|line| line.strip_prefix("tokio_wheel_lateness_seconds_bucket"))
        .filter_map(|bucket| bucket.split_once(' ')?.1.parse().ok())
        .collect();
    assert!(buckets.len() > 10 && buckets.is_sorted(), "{page}");
}

#[cfg(feature = "idle")]
#[expect(dead_code, reason = "`main`")]
#[path = "../examples/idle_reaper.rs"]
mod idle_reaper;

/// A connection ends 300 ms after its last line, and a trusted connection after 900 ms.
#[cfg(feature = "idle")]
#[tokio::test(start_paused = true)]
async fn idle_reaper() {
    use idle_reaper::End::{Left, Reaped};

    let ends = idle_reaper::run().await.into_iter();
    let ends = ends.map(|(name, end)| (name, end.by, end.millis, end.lines));
    let expected = [
        ("silent", Reaped, 300, 0),
        ("fading", Reaped, 700, 3),
        ("regular", Left, 1_000, 4),
        ("trusted", Reaped, 1_500, 3),
    ];
    assert!(ends.eq(expected));
}

/// Connections that send lines stay open. A silent connection is reaped after 100 to 300 ms, or is shed before. Older
/// silent connections end first.
#[cfg(feature = "idle")]
#[tokio::test(start_paused = true)]
async fn idle_reaper_with_few_descriptors() {
    use idle_reaper::{
        End::{Left, Reaped, Shed},
        Ended, FEWEST, crowd, of,
    };

    let (in_use, talking, silent) = crowd(20).await;
    assert_eq!((in_use, of(&talking, Left).count()), (20, 4));
    assert_eq!(silent.len(), 60);
    // Ten connections came at once. They end in any order.
    let came = |end: &Ended| {
        if (30..40).contains(&end.id) {
            30
        } else {
            end.id
        }
    };
    assert!(silent.is_sorted_by_key(came), "{silent:?}");
    assert!(
        of(&silent, Reaped).all(|millis| (100..=300).contains(&millis)),
        "{silent:?}"
    );
    assert!(of(&silent, Reaped).count() >= 40 && of(&silent, Reaped).any(|millis| millis < 150));
    assert!(of(&silent, Shed).count() >= 3 && of(&silent, Shed).all(|millis| millis < 300));

    for descriptors in FEWEST..40 {
        let (_, talking, _) = crowd(descriptors).await;
        assert_eq!(
            of(&talking, Left).count(),
            4,
            "with {descriptors} descriptors"
        );
    }

    // With enough descriptors, every silent connection gets its full 300 ms.
    let (_, _, silent) = crowd(200).await;
    assert_eq!(
        of(&silent, Reaped).filter(|millis| *millis == 300).count(),
        60
    );
}

//! Runs the examples that have a function `run`, and checks what they report.

#[expect(dead_code, reason = "`main`")]
#[path = "../../examples/scheduler.rs"]
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
#[path = "../../examples/prometheus.rs"]
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

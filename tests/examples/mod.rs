//! Runs the examples that have a function `run`, and checks what they report.

#[cfg(feature = "call-sites")]
#[expect(dead_code, reason = "`main`")]
#[path = "../../examples/call_sites.rs"]
mod call_sites;
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

/// The page names the line of the leak.
#[cfg(feature = "call-sites")]
#[tokio::test]
async fn call_sites() {
    let page = call_sites::run().await.unwrap();
    let leak = page.lines().nth(1).unwrap();
    assert!(leak.starts_with(" 100000 "), "{page}");
    assert!(leak.contains("examples/call_sites.rs:"), "{page}");
}

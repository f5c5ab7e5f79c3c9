//! Sends echoes over real sockets on the real clock.

use std::time::Duration;

use tokio_wheel_quic::echo::{Plan, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_echoes_arrive_and_the_idle_close_is_never_early() {
    let plan = Plan {
        clients: 20,
        messages: 50,
        idle: Duration::from_millis(400),
    };
    let report = run(plan).await.unwrap();
    assert_eq!(report.fates.len(), 20);
    for fate in &report.fates {
        assert_eq!(fate.echoes, 50, "{report:?}");
        assert!(fate.silent >= plan.idle, "{report:?}");
        assert!(fate.silent < Duration::from_secs(60), "{report:?}");
    }
    assert_eq!(report.idle_at_server, 20, "{report:?}");
    // A timer of the wheel ended each end of a connection.
    assert!(report.metrics.fired() >= 40, "{report:?}");
    assert_eq!(report.metrics.pending(), 0, "{report:?}");
}

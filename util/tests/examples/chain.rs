//! Runs the example `deadline`, and looks at what runs after the end of the budget: nothing.

use std::time::Duration;

use http::StatusCode;
use tokio_wheel::{Instant, sleep};

#[expect(dead_code, reason = "`main`")]
#[path = "../../examples/deadline.rs"]
mod deadline;

/// The sockets and the clock are real.
#[tokio::test]
async fn nothing_runs_after_the_budget() {
    let steps = deadline::Steps::default();
    let frontend = deadline::start(Duration::from_millis(1_000), &steps)
        .await
        .unwrap();
    let start = Instant::now();
    let (status, _) = deadline::ask(frontend, "/").await.unwrap();
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    // The header has whole milliseconds, so the backend may give up first, and the frontend hears of it.
    assert!(start.elapsed() >= Duration::from_millis(290));
    // By then, the database has answered, and nobody has heard it.
    sleep(Duration::from_millis(1_500)).await;
    let mut steps = steps.lock().unwrap().clone();
    steps.retain(|step| *step != "frontend got an answer");
    assert_eq!(steps, ["frontend asks", "backend asks"]);
}

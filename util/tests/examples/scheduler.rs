//! Runs the example `scheduler`, and checks what it reports.

#[expect(dead_code, reason = "`main`")]
#[path = "../../examples/scheduler.rs"]
mod housekeeping;

/// Each task runs at its time. A canceled task and a task that was dropped do not run.
#[tokio::test(start_paused = true)]
async fn each_task_runs_at_its_time() {
    let report = housekeeping::run().await.unwrap();
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

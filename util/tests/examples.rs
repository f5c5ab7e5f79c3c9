//! Runs the examples, and checks what they report.

#[cfg(all(feature = "hyper", feature = "io"))]
#[expect(dead_code, reason = "`main`, and what it alone needs")]
#[path = "../examples/hyper_server.rs"]
mod hyper_server;

/// Each client exceeds its own limit, and no limit is early. The example runs twice, with different limits.
///
/// The sockets and the clock are real. The limits are long, because the machine may be busy.
#[cfg(all(feature = "hyper", feature = "io"))]
#[tokio::test]
async fn hyper_server() {
    use hyper_server::{Settings, run};
    use std::time::Duration;
    use tokio_wheel_util::hyper::Reason;

    let settings = |[window, request, idle, grace]: [u64; 4]| Settings {
        window: Duration::from_millis(window),
        request: Duration::from_millis(request),
        idle: Duration::from_millis(idle),
        grace: Duration::from_millis(grace),
        age: Duration::from_millis(6_000),
    };
    let orders = [[1_800, 1_000, 1_500, 500], [1_000, 2_000, 1_200, 800]];
    let runs = orders.map(|order| tokio::spawn(run(settings(order))));
    for end in runs {
        let end = tokio::time::timeout(Duration::from_secs(600), end).await;
        let end = end.expect("the example must end within 10 minutes");
        let report = end.unwrap().unwrap();
        let (fates, counts) = &report;
        let mut answers: Vec<_> = fates
            .iter()
            .map(|fate| (fate.client, fate.answers.as_slice()))
            .collect();
        answers.sort();
        let expected: [(&str, &[u16]); 7] = [
            ("endless head", &[]),
            ("in time", &[200, 200, 200]),
            ("last", &[200, 200]),
            ("restless", &[200]),
            ("silent", &[200]),
            ("slow body", &[408]),
            ("slow handler", &[504, 200]),
        ];
        assert_eq!(answers, expected, "{report:?}");
        let is_early = |fate: &hyper_server::Fate| fate.lived < fate.limit;
        assert!(!fates.iter().any(is_early), "{report:?}");
        let ended = [Reason::Idle, Reason::MaxAge, Reason::Shutdown].map(|it| counts.ended(it));
        // The server may not have seen yet that other clients have hung up.
        let is_expected = ended[0] >= 2 && ended[1] == 1 && ended[2] >= 1;
        assert!(is_expected, "{report:?}");
        assert_eq!((counts.open(), counts.cut()), (0, 1), "{report:?}");
    }
}

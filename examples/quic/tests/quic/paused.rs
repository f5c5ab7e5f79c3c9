//! Runs whole connections on a paused clock.

use std::time::Duration;

use quinn::ConnectionError;
use tokio_wheel::{Instant, Timer};
use tokio_wheel_quic::echo::{Plan, configs, play};

use crate::memory::endpoints;

const IDLE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn an_idle_close_comes_at_its_deadline_on_a_paused_clock() {
    let (server, client) = configs(IDLE).unwrap();
    let (server, mut clients) = endpoints(server).unwrap();
    clients.set_default_client_config(client);
    let plan = Plan {
        clients: 10,
        messages: 10,
        idle: IDLE,
    };
    let report = play(plan, server, clients).await.unwrap();
    assert_eq!(report.idle_at_server, 10, "{report:?}");
    for fate in &report.fates {
        assert_eq!(fate.echoes, 10, "{report:?}");
        assert!(fate.silent >= IDLE, "{report:?}");
        // The peer delays acknowledgments by 25 ms, and each acknowledgment restarts the idle
        // limit.
        assert!(
            fate.silent < IDLE + Duration::from_millis(100),
            "{report:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn each_end_of_a_connection_is_one_entry_of_the_wheel() {
    let (server, client) = configs(IDLE).unwrap();
    let (server, mut clients) = endpoints(server).unwrap();
    clients.set_default_client_config(client);
    let address = server.local_addr().unwrap();

    let mut open = Vec::new();
    for _ in 0..5 {
        let connect = clients.connect(address, "localhost").unwrap();
        let accept = async { server.accept().await.unwrap().await };
        open.push(tokio::try_join!(connect, accept).unwrap());
    }
    // Waits until the handshakes have ended, long before the idle limit.
    tokio::time::sleep(IDLE / 2).await;
    assert_eq!(Timer::current().metrics().pending(), 10);

    let start = Instant::now();
    for (at_client, at_server) in &open {
        assert_eq!(at_client.closed().await, ConnectionError::TimedOut);
        assert_eq!(at_server.closed().await, ConnectionError::TimedOut);
    }
    assert!(start.elapsed() < IDLE);
    drop(open);
    tokio::time::sleep(IDLE).await;
    assert_eq!(Timer::current().metrics().pending(), 0);
}

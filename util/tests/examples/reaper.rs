//! Runs the example `idle_reaper`, and checks how its connections end.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
};
use tokio_wheel::{Instant, sleep_until};

use crate::support::{ms, secs};

#[expect(dead_code, reason = "`main`")]
#[path = "../../examples/idle_reaper.rs"]
mod idle_reaper;

use idle_reaper::{
    End::{self, Left, Reaped, Shed},
    Ended, Server, Settings,
};

fn settings(connections: usize) -> Settings {
    Settings {
        timeout: ms(300),
        trusted: ms(900),
        connections,
    }
}

/// A peer sends lines, each so many milliseconds after the start. Without the line `bye`, it waits for the server.
async fn peer(start: Instant, lines: Vec<(u64, &'static str)>, mut socket: DuplexStream) {
    for (millis, line) in lines {
        sleep_until(start + ms(millis)).await;
        if line == "bye" || socket.write_all(line.as_bytes()).await.is_err() {
            return;
        }
        let _ = socket.write_all(b"\n").await;
    }
    socket.read_to_end(&mut Vec::new()).await.unwrap();
}

/// Connects peers, each after a pause, when there is room. Returns the ends of all connections.
async fn ends(server: Server, pause: u64, peers: Vec<Vec<(u64, &'static str)>>) -> Vec<Ended> {
    let (start, mut connections) = (Instant::now(), JoinSet::new());
    for (id, lines) in peers.into_iter().enumerate() {
        sleep_until(start + ms(pause * id as u64)).await;
        let permit = server.admit().await;
        let (theirs, ours) = tokio::io::duplex(1_024);
        tokio::spawn(peer(start, lines, theirs));
        connections.spawn(server.clone().connection(id, permit, ours));
    }
    let mut ends = Vec::new();
    while let Some(ended) = connections.join_next().await {
        ends.push(ended.unwrap());
    }
    ends
}

/// A connection ends 300 ms after its last line, and a trusted connection after 900 ms.
#[tokio::test(start_paused = true)]
async fn idle_reaper() {
    let (hello, beat) = ((0, "hello"), |millis| (millis, "beat"));
    let peers = [
        vec![hello, beat(250), beat(500), beat(750), (1_000, "bye")],
        vec![],
        vec![hello, beat(150), beat(400)],
        vec![hello, (100, "let me in"), beat(600)],
    ];
    let ends = ends(Server::start(settings(100)), 0, peers.into()).await;
    let ends = ends
        .iter()
        .map(|end| (end.id, end.by, end.millis, end.lines));
    let expected = [
        (1, Reaped, 300, 0),
        (2, Reaped, 700, 3),
        (0, Left, 1_000, 4),
        (3, Reaped, 1_500, 3),
    ];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

/// With few connections, those that are silent for longest make room. A peer that talks stays.
#[tokio::test(start_paused = true)]
async fn idle_reaper_with_few_connections() {
    let talks = (0..1_000).step_by(50).map(|millis| (millis, "beat"));
    let mut peers = vec![talks.chain([(1_000, "bye")]).collect()];
    peers.resize(20, Vec::new());
    let ends = ends(Server::start(settings(10)), 20, peers).await;
    let of = |by: End| {
        ends.iter()
            .filter(move |end| end.by == by)
            .map(|end| end.id)
    };
    assert_eq!(of(Left).collect::<Vec<_>>(), [0], "{ends:?}");
    let shed: Vec<_> = of(Shed).collect();
    assert!(shed.len() >= 10 && shed.is_sorted(), "{ends:?}");
    assert_eq!(shed.len() + of(Reaped).count(), 19, "{ends:?}");
}

/// Over real sockets: the server closes the silent peer, a peer whose line never ends, and at its end all peers.
#[tokio::test]
async fn idle_reaper_on_sockets() {
    let timeout = secs(2);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Server::start(Settings {
        timeout,
        ..settings(10)
    });
    let server = tokio::spawn(server.serve(listener, async { drop(stopped.await) }));
    let connect = async || TcpStream::connect(address).await.unwrap();
    let (mut talks, mut silent, mut endless) = (connect().await, connect().await, connect().await);
    let start = Instant::now();
    endless.write_all(&[b'x'; 1_024]).await.unwrap();
    let ends = async {
        let _ = endless.read_to_end(&mut Vec::new()).await;
        let _ = silent.read_to_end(&mut Vec::new()).await;
        // The server may have accepted the peer a little before `start`.
        assert!(start.elapsed() >= timeout - ms(500));
    };
    tokio::join!(ends, async {
        for _ in 0..10 {
            talks.write_all(b"beat\n").await.unwrap();
            let mut echo = [0; 5];
            talks.read_exact(&mut echo).await.unwrap();
            assert_eq!(&echo, b"beat\n");
            tokio::time::sleep(timeout / 8).await;
        }
    });
    drop(stop);
    server.await.unwrap();
    // The end of the server drops the connection of the peer that talks.
    let _ = talks.read_to_end(&mut Vec::new()).await;
    assert!(TcpStream::connect(address).await.is_err());
}

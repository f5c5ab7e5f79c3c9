//! Runs the example `idle_reaper`, and checks how its connections end.

use std::time::Duration;

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

/// The number of peers of the crowd that talk.
const TALKING: usize = 4;

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

/// Connects peers at these milliseconds. Returns the ends of all connections, and how many more the server had room for when it was fullest.
async fn ends(
    server: Server,
    peers: impl IntoIterator<Item = (u64, Vec<(u64, &'static str)>)>,
) -> (Vec<Ended>, usize) {
    let (start, mut connections, mut free) = (Instant::now(), JoinSet::new(), usize::MAX);
    for (id, (at, lines)) in peers.into_iter().enumerate() {
        sleep_until(start + ms(at)).await;
        let permit = server.admit().await;
        let (theirs, ours) = tokio::io::duplex(1_024);
        tokio::spawn(peer(start, lines, theirs));
        connections.spawn(server.clone().connection(id, permit, ours));
        free = free.min(server.free.available_permits());
    }
    let mut ends = Vec::new();
    while let Some(ended) = connections.join_next().await {
        ends.push(ended.unwrap());
    }
    (ends, free)
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
    let peers = peers.into_iter().map(|lines| (0, lines));
    let (ends, _) = ends(Server::start(settings(100)), peers).await;
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

/// Serves a crowd. Returns the least room, and the ends of the talking and the silent peers.
async fn crowd(limit: usize) -> (usize, Vec<Ended>, Vec<Ended>) {
    // The talking peers connect first. One silent peer connects every 20 ms, and ten at 510 ms.
    let mut arrivals = vec![0; TALKING];
    arrivals.extend((0..1_000).step_by(20).chain([510; 10]));
    arrivals.sort_unstable();
    let peers = arrivals.into_iter().enumerate().map(|(id, at)| {
        let talks = (0..1_000).step_by(50).map(|millis| (millis, "beat"));
        let lines = match id {
            ..TALKING => talks.chain([(1_000, "bye")]).collect(),
            _ => Vec::new(),
        };
        (at, lines)
    });
    let (ends, free) = ends(Server::start(settings(limit)), peers).await;
    let (talking, silent) = ends.into_iter().partition(|end| end.id < TALKING);
    (free, talking, silent)
}

/// Returns the milliseconds after which connections ended for a reason.
fn of(ends: &[Ended], by: End) -> impl Iterator<Item = u128> {
    let ends = ends.iter().filter(move |end| end.by == by);
    ends.map(|end| end.millis)
}

/// A silent connection is reaped after 300 ms, or is shed before. Older silent connections end first.
#[tokio::test(start_paused = true)]
async fn idle_reaper_with_few_connections() {
    let (free, talking, silent) = crowd(20).await;
    assert_eq!((free, of(&talking, Left).count()), (0, 4));
    assert_eq!(silent.len(), 60);
    // Ten connections came at once. They end in any order.
    let came = |end: &Ended| match end.id {
        30..40 => 30,
        id => id,
    };
    assert!(silent.is_sorted_by_key(came), "{silent:?}");
    assert!(
        of(&silent, Reaped).all(|millis| millis == 300),
        "{silent:?}"
    );
    assert!(of(&silent, Reaped).count() >= 30, "{silent:?}");
    assert!(of(&silent, Shed).count() >= 3 && of(&silent, Shed).all(|millis| millis < 300));

    // With 20 connections or more, no talking peer is shed.
    for connections in 20..40 {
        let (_, talking, _) = crowd(connections).await;
        assert_eq!(of(&talking, Left).count(), 4, "{connections} connections");
    }

    // With enough connections, every silent connection gets its full 300 ms.
    let (_, _, silent) = crowd(200).await;
    assert_eq!(of(&silent, Reaped).filter(|end| *end == 300).count(), 60);
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
    tokio::join!(
        async {
            for _ in 0..10 {
                talks.write_all(b"beat\n").await.unwrap();
                let mut echo = [0; 5];
                talks.read_exact(&mut echo).await.unwrap();
                assert_eq!(&echo, b"beat\n");
                tokio::time::sleep(timeout / 8).await;
            }
        },
        async {
            let _ = silent.read_to_end(&mut Vec::new()).await;
            // The server may have accepted the peer a little before `start`.
            assert!(start.elapsed() >= timeout - Duration::from_millis(500));
        },
        async {
            endless.write_all(&[b'x'; 1_024]).await.unwrap();
            let _ = endless.read_to_end(&mut Vec::new()).await;
        },
    );
    drop(stop);
    server.await.unwrap();
    // The end of the server drops the connection of the peer that talks.
    let _ = talks.read_to_end(&mut Vec::new()).await;
    assert!(TcpStream::connect(address).await.is_err());
}

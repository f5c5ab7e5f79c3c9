//! Tests a listener that fails.

use super::*;

/// A server without descriptors tries again after a pause. A client that has left costs no time.
#[test]
fn a_server_goes_on_after_failed_accepts() {
    let errors = [
        (Errno::MFILE, 1_000),
        (Errno::NFILE, 1_000),
        (Errno::NOBUFS, 1_000),
        (Errno::NOMEM, 1_000),
        (Errno::INVAL, 1_000),
        (Errno::CONNABORTED, 0),
        (Errno::CONNRESET, 0),
        (Errno::CONNREFUSED, 0),
    ];
    each(async |protocol| {
        for (errno, pauses) in errors {
            let start = Instant::now();
            let server = Server::new(Limits::new());
            for _ in 0..1_000 {
                server.accept.send(Err(errno.into())).unwrap();
            }
            let mut client = server.client(protocol).await;
            assert_eq!(client.get("/none").await.unwrap(), 0);
            assert_eq!(start.elapsed(), ms(10 * pauses));
            assert_eq!(server.errors().len(), 1_000);
            let expected = format!("failed to accept a connection: {}", io::Error::from(errno));
            assert_eq!(server.errors()[0], expected);
        }
    });
}

/// A listener that always fails at once, or always has a client. It counts the calls.
struct AtOnce(Arc<AtomicUsize>, Option<io::ErrorKind>);

impl Listener for AtOnce {
    type Io = DuplexStream;
    type Addr = ();

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }

    async fn accept(&mut self) -> io::Result<(DuplexStream, ())> {
        let calls = self.0.fetch_add(1, Relaxed);
        match self.1 {
            Some(kind) => Err(kind.into()),
            None if calls < 100_000 => Ok((duplex(1).0, ())),
            None => pending().await,
        }
    }
}

#[test]
fn endless_errors_neither_spin_nor_keep_others_from_running() {
    does_not_hang(|| {
        paused().block_on(async {
            let calls = Arc::<AtomicUsize>::default();
            let listener = AtOnce(calls.clone(), Some(io::ErrorKind::Other));
            let server = serve(listener, app()).with_graceful_shutdown(sleep(secs(10)));
            server.await.unwrap();
            assert_eq!(calls.load(Relaxed), 1_000);

            // Between two clients that have left, other tasks run.
            let calls = Arc::<AtomicUsize>::default();
            let connections = Connections::new(Limits::new());
            connections.shutdown().await;
            let listener = AtOnce(calls.clone(), Some(io::ErrorKind::ConnectionReset));
            let server = serve(listener, app()).connections(&connections);
            let mut server = pin!(server.into_future());
            tokio::task::yield_now().await;
            let polled = poll_once(&mut server).await;
            assert!(polled.is_ready(), "the connections have shut down");

            let listener = AtOnce(calls.clone(), Some(io::ErrorKind::ConnectionReset));
            let mut server = pin!(serve(listener, app()).into_future());
            tokio::task::yield_now().await;
            assert!(poll_once(&mut server).await.is_pending());
            assert!((1..=200).contains(&calls.load(Relaxed)), "{calls:?}");
        })
    });
}

/// While clients wait, other tasks run.
#[test]
fn a_crowd_of_clients_lets_other_tasks_run() {
    paused().block_on(async {
        let accepted = Arc::<AtomicUsize>::default();
        let server = tokio::spawn(serve(AtOnce(accepted.clone(), None), app()).into_future());
        for turn in 1..=10 {
            tokio::task::yield_now().await;
            let accepted = accepted.load(Relaxed);
            assert!(accepted > 0, "turn {turn}");
            assert!(accepted <= 1_000 * turn, "turn {turn}: {accepted}");
        }
        server.abort();
    });
}

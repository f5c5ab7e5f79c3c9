//! Tests that a connection lets the other tasks of its worker run, also while its graceful shutdown begins.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use http_body_util::Empty;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    task::{coop, yield_now},
};
use tokio_wheel_util::hyper::{Connections, Limits, Reason};

use crate::{
    server::{Http2, serve},
    support::{paused, secs, settle},
};

/// The handler works for long, and uses tokio's budget to let other tasks run.
#[test]
fn a_handler_lets_other_tasks_run_when_its_connection_shuts_down() {
    paused().block_on(async {
        let connections = Connections::new(Limits::new());
        let lifetime = connections.open().unwrap();
        let may_end = Arc::new(AtomicBool::new(false));
        let ends = may_end.clone();
        let handler = service_fn(move |_: Request<Incoming>| {
            let ends = ends.clone();
            async move {
                for _ in 0..1_000_000 {
                    if ends.load(Relaxed) {
                        break;
                    }
                    coop::consume_budget().await;
                }
                assert!(ends.load(Relaxed), "no other task has run");
                Ok::<_, io::Error>(Response::new(Empty::<Bytes>::new()))
            }
        });
        let (mut client, server) = tokio::io::duplex(1_024);
        let service = lifetime.service(handler);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service);
        let end = tokio::spawn(lifetime.drive(connection));
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        settle().await;
        let shutdown = tokio::spawn(async move { connections.shutdown().await });
        for _ in 0..100 {
            yield_now().await;
        }
        may_end.store(true, Relaxed);
        assert_eq!(end.await.unwrap().reason(), Reason::Shutdown);
        shutdown.await.unwrap();
    });
}

/// A client that sends frames of an unknown type faster than the server can read them. HTTP/2 ignores such frames.
struct Flood {
    sent: Vec<u8>,
    reads: usize,
    /// The number of reads since another task has run.
    in_a_row: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl AsyncRead for Flood {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let unit = ready!(coop::poll_proceed(cx));
        unit.made_progress();
        self.reads += 1;
        if self.reads > 100_000 {
            return Poll::Pending;
        }
        self.most
            .fetch_max(self.in_a_row.fetch_add(1, Relaxed) + 1, Relaxed);
        while self.sent.len() < buf.remaining() {
            self.sent.extend([0, 0, 0, 0xfa, 0, 0, 0, 0, 0]);
        }
        let rest = self.sent.split_off(buf.remaining());
        buf.put_slice(&self.sent);
        self.sent = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Flood {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_flood_of_frames_lets_other_tasks_run() {
    paused().block_on(async {
        let connections = Connections::new(Limits::new().idle(secs(0)).grace(secs(0)));
        let (in_a_row, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        sent.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let flood = Flood {
            sent,
            reads: 0,
            in_a_row: in_a_row.clone(),
            most: most.clone(),
        };
        let end = tokio::spawn(serve(Http2, connections.open().unwrap(), flood));
        while !end.is_finished() {
            in_a_row.store(0, Relaxed);
            yield_now().await;
        }
        let most = most.load(Relaxed);
        assert!(most < 1_000, "{most} reads while no other task ran");
    });
}

//! Runs each body on `tokio-io-timeout` and on this crate. Events, their order and their virtual time must be equal.

use std::io::{Error, ErrorKind, Result};

use tokio::time::sleep;

use super::*;

type Limit = Option<Duration>;

/// The original. Its `TimeoutReader` and `TimeoutWriter` are the two halves of this type.
mod original {
    use tokio_io_timeout::TimeoutStream;

    use super::{AsyncRead, AsyncWrite, Limit};

    pub(super) fn stream<S: AsyncRead + AsyncWrite>(
        inner: S,
        read: Limit,
        write: Limit,
    ) -> TimeoutStream<S> {
        let mut stream = TimeoutStream::new(inner);
        stream.set_read_timeout(read);
        stream.set_write_timeout(write);
        stream
    }
}

mod wheel {
    use super::{Limit, Limits, TimeoutStream, set};

    pub(super) fn stream<S>(inner: S, read: Limit, write: Limit) -> TimeoutStream<S> {
        let limits = set(Limits::new(), read, Limits::read_timeout);
        let limits = set(limits, write, Limits::write_timeout);
        TimeoutStream::with_limits(inner, limits)
    }
}

impl Log {
    /// Notes only the kind of an error, since the errors of this crate contain more.
    fn note_result<T: fmt::Debug>(&self, result: Result<T>) {
        self.note(result.map_err(|error| error.kind()));
    }
}

/// Reads once, at most 8 bytes.
async fn read(reader: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>> {
    let mut bytes = [0; 8];
    let read = reader.read(&mut bytes).await?;
    Ok(bytes[..read].to_vec())
}

fn err() -> Error {
    ErrorKind::BrokenPipe.into()
}

side_by_side! {
    (original) (wheel)

    async fn writes_flushes_and_shutdowns_in_time_and_too_late(io, log) {
        let peer = Scripted::new()
            .writes([3, 10, 10, 25, 60, 61].map(|at| (ms(at), 2)))
            .flushes([105, 140, 190].map(ms));
        let mut stream = pin!(io::stream(peer, None, Some(ms(10))));
        for _ in 0..12 {
            log.note_result(stream.write(b"abc").await);
        }
        for _ in 0..5 {
            log.note_result(stream.flush().await);
        }
        for _ in 0..6 {
            log.note_result(stream.shutdown().await);
        }
    }

    /// A canceled operation continues to count, even if another operation of its direction follows.
    async fn a_canceled_operation_continues_to_count(io, log) {
        let peer = Scripted::new().writes([(ms(100), 8)]).flushes([ms(100)]);
        let mut stream = pin!(io::stream(peer, None, Some(ms(20))));
        tokio::select! {
            result = stream.write(b"abc") => log.note_result(result),
            () = sleep(ms(15)) => log.note("canceled"),
        }
        log.note_result(stream.flush().await);

        tokio::select! {
            result = stream.flush() => log.note_result(result),
            () = sleep(ms(15)) => log.note("canceled"),
        }
        sleep(ms(40)).await;
        log.note_result(stream.write(b"abc").await);
        log.note_result(stream.write(b"abc").await);
    }

    /// An error of the inner stream ends an operation and its timeout.
    async fn an_error_restarts_the_timeout(io, log) {
        let peer = Builder::new()
            .wait(ms(8))
            .read_error(err())
            .wait(ms(8))
            .read(b"abc")
            .write_error(err())
            .wait(ms(8))
            .write_error(err())
            .wait(ms(8))
            .write(b"xyz")
            .build();
        let mut server = pin!(io::stream(peer, Some(ms(10)), Some(ms(10))));
        for _ in 0..2 {
            log.note_result(read(&mut server).await);
        }
        for _ in 0..3 {
            log.note_result(server.write(b"xyz").await);
        }
    }
}

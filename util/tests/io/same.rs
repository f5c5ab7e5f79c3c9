//! Runs each body on `tokio-io-timeout` and on this crate. Events, their order and their virtual time must be equal.

use std::{
    fmt,
    future::poll_fn,
    io::{Cursor, Error, ErrorKind, IoSlice, Result, SeekFrom},
    pin::pin,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{
        AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt, ReadBuf, duplex, split,
    },
    time::sleep,
};
use tokio_test::io::Builder;

use crate::{
    script::Scripted,
    support::{
        log::{Log, side_by_side},
        ms, poll_once, secs,
    },
};

/// The original, with one function for each method that this crate replaces by `Limits`.
mod original {
    use std::{pin::Pin, time::Duration};

    use tokio::io::{AsyncRead, AsyncWrite};
    pub(super) use tokio_io_timeout::{TimeoutReader, TimeoutStream, TimeoutWriter};

    type Limit = Option<Duration>;

    pub(super) fn reader<R: AsyncRead>(inner: R, limit: Limit) -> TimeoutReader<R> {
        let mut reader = TimeoutReader::new(inner);
        reader.set_timeout(limit);
        reader
    }

    pub(super) fn writer<W: AsyncWrite>(inner: W, limit: Limit) -> TimeoutWriter<W> {
        let mut writer = TimeoutWriter::new(inner);
        writer.set_timeout(limit);
        writer
    }

    pub(super) fn stream<S>(inner: S, read: Limit, write: Limit) -> TimeoutStream<S>
    where
        S: AsyncRead + AsyncWrite,
    {
        let mut stream = TimeoutStream::new(inner);
        stream.set_read_timeout(read);
        stream.set_write_timeout(write);
        stream
    }

    pub(super) fn limit_reader<R: AsyncRead>(reader: Pin<&mut TimeoutReader<R>>, limit: Limit) {
        reader.set_timeout_pinned(limit);
    }

    pub(super) fn limit_writer<W: AsyncWrite>(writer: Pin<&mut TimeoutWriter<W>>, limit: Limit) {
        writer.set_timeout_pinned(limit);
    }

    pub(super) fn limit_reads<S>(stream: Pin<&mut TimeoutStream<S>>, limit: Limit)
    where
        S: AsyncRead + AsyncWrite,
    {
        stream.set_read_timeout_pinned(limit);
    }

    pub(super) fn limit_writes<S>(stream: Pin<&mut TimeoutStream<S>>, limit: Limit)
    where
        S: AsyncRead + AsyncWrite,
    {
        stream.set_write_timeout_pinned(limit);
    }

    pub(super) fn limits<S>(stream: &TimeoutStream<S>) -> [Limit; 2]
    where
        S: AsyncRead + AsyncWrite,
    {
        [stream.read_timeout(), stream.write_timeout()]
    }
}

/// The replacements of the original's types and methods.
mod wheel {
    use std::{pin::Pin, time::Duration};

    use tokio_wheel_util::io::Limits;
    pub(super) use tokio_wheel_util::io::{
        TimeoutStream, TimeoutStream as TimeoutReader, TimeoutStream as TimeoutWriter,
    };

    type Limit = Option<Duration>;

    pub(super) fn reader<S>(inner: S, limit: Limit) -> TimeoutStream<S> {
        stream(inner, limit, None)
    }

    pub(super) fn writer<S>(inner: S, limit: Limit) -> TimeoutStream<S> {
        stream(inner, None, limit)
    }

    pub(super) fn stream<S>(inner: S, read: Limit, write: Limit) -> TimeoutStream<S> {
        let mut limits = Limits::new();
        limits.read_timeout = read;
        limits.write_timeout = write;
        TimeoutStream::with_limits(inner, limits)
    }

    pub(super) fn limit_reads<S>(stream: Pin<&mut TimeoutStream<S>>, limit: Limit) {
        let mut limits = stream.limits();
        limits.read_timeout = limit;
        stream.set_limits_pinned(limits);
    }

    pub(super) fn limit_writes<S>(stream: Pin<&mut TimeoutStream<S>>, limit: Limit) {
        let mut limits = stream.limits();
        limits.write_timeout = limit;
        stream.set_limits_pinned(limits);
    }

    pub(super) use self::{limit_reads as limit_reader, limit_writes as limit_writer};

    pub(super) fn limits<S>(stream: &TimeoutStream<S>) -> [Limit; 2] {
        [stream.limits().read_timeout, stream.limits().write_timeout]
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

    async fn reads_in_time_and_too_late(io, log) {
        let arrivals = [3, 10, 10, 25, 60, 61].map(|at| (ms(at), 2));
        let mut reader = pin!(io::TimeoutReader::new(Scripted::new().reads(arrivals)));
        io::limit_reader(reader.as_mut(), Some(ms(10)));
        for _ in 0..12 {
            log.note_result(read(&mut reader).await);
        }
    }

    /// Each read has its full time, even if earlier reads were slow.
    async fn a_ready_read_restarts_the_timeout(io, log) {
        let arrivals = (1..20).map(|n| (ms(n * 9), 1));
        let mut reader = pin!(io::TimeoutReader::new(Scripted::new().reads(arrivals)));
        io::limit_reader(reader.as_mut(), Some(ms(10)));
        for _ in 0..20 {
            log.note_result(read(&mut reader).await);
        }
    }

    async fn time_between_reads_does_not_count(io, log) {
        let arrivals = [5, 30, 77, 120].map(|at| (ms(at), 1));
        let mut reader = pin!(io::TimeoutReader::new(Scripted::new().reads(arrivals)));
        io::limit_reader(reader.as_mut(), Some(ms(10)));
        for think in [0, 21, 40, 45, 100] {
            sleep(ms(think)).await;
            log.note_result(read(&mut reader).await);
        }
    }

    async fn a_read_after_a_timeout_has_its_full_time(io, log) {
        let arrivals = [(ms(100), 1)];
        let mut reader = pin!(io::TimeoutReader::new(Scripted::new().reads(arrivals)));
        io::limit_reader(reader.as_mut(), Some(ms(10)));
        for think in [0, 0, 5, 13] {
            log.note_result(read(&mut reader).await);
            sleep(ms(think)).await;
        }
        io::limit_reader(reader.as_mut(), Some(ms(50)));
        log.note_result(read(&mut reader).await);
        log.note_result(read(&mut reader).await);
    }

    async fn writes_in_time_and_too_late(io, log) {
        let room = [3, 10, 10, 25, 60, 61].map(|at| (ms(at), 2));
        let mut writer = pin!(io::TimeoutWriter::new(Scripted::new().writes(room)));
        io::limit_writer(writer.as_mut(), Some(ms(10)));
        for _ in 0..12 {
            log.note_result(writer.write(b"abc").await);
        }
    }

    async fn flush_and_shutdown_have_the_write_timeout(io, log) {
        let peer = Scripted::new()
            .writes([(ms(0), 8)])
            .flushes([5, 40, 90].map(ms));
        let mut writer = pin!(io::TimeoutWriter::new(peer));
        io::limit_writer(writer.as_mut(), Some(ms(10)));
        log.note_result(writer.write(b"abc").await);
        for _ in 0..5 {
            log.note_result(writer.flush().await);
        }
        for _ in 0..6 {
            log.note_result(writer.shutdown().await);
        }
    }

    /// A canceled operation continues to count, even if another operation of its direction follows.
    async fn a_canceled_operation_continues_to_count(io, log) {
        let peer = Scripted::new().writes([(ms(100), 8)]).flushes([ms(100)]);
        let mut writer = pin!(io::TimeoutWriter::new(peer));
        io::limit_writer(writer.as_mut(), Some(ms(20)));
        tokio::select! {
            result = writer.write(b"abc") => log.note_result(result),
            () = sleep(ms(15)) => log.note("canceled"),
        }
        log.note_result(writer.flush().await);

        tokio::select! {
            result = writer.flush() => log.note_result(result),
            () = sleep(ms(15)) => log.note("canceled"),
        }
        sleep(ms(40)).await;
        log.note_result(writer.write(b"abc").await);
        log.note_result(writer.write(b"abc").await);
    }

    async fn without_a_timeout_nothing_is_limited(io, log) {
        let peer = || Scripted::new().reads([(secs(86_400), 1)]).writes([(secs(86_400), 1)]);
        let mut stream = pin!(io::TimeoutStream::new(peer()));
        log.note(io::limits(&stream));
        log.note_result(read(&mut stream).await);
        log.note_result(stream.write(b"abc").await);

        let mut stream = pin!(io::TimeoutStream::new(peer()));
        io::limit_reads(stream.as_mut(), Some(ms(10)));
        io::limit_writes(stream.as_mut(), Some(ms(20)));
        log.note(io::limits(&stream));
        io::limit_reads(stream.as_mut(), None);
        io::limit_writes(stream.as_mut(), None);
        log.note(io::limits(&stream));
        log.note_result(read(&mut stream).await);
        log.note_result(stream.write(b"abc").await);
    }

    async fn a_stream_limits_both_directions_separately(io, log) {
        let peer = Scripted::new()
            .reads([15, 33].map(|at| (ms(at), 1)))
            .writes([28, 46].map(|at| (ms(at), 1)));
        let mut stream = pin!(io::TimeoutStream::new(peer));
        io::limit_reads(stream.as_mut(), Some(ms(10)));
        io::limit_writes(stream.as_mut(), Some(ms(20)));
        for _ in 0..4 {
            log.note_result(read(&mut stream).await);
            log.note_result(stream.write(b"abc").await);
        }
    }

    async fn a_stream_that_is_split(io, log) {
        let peer = Scripted::new()
            .reads([15, 33, 70].map(|at| (ms(at), 1)))
            .writes([28, 46, 80].map(|at| (ms(at), 1)));
        let stream = io::stream(peer, Some(ms(11)), Some(ms(20)));
        let (mut reader, mut writer) = split(stream);
        let start = log.start;
        let reads = tokio::spawn(async move {
            let mut results = Vec::new();
            for _ in 0..7 {
                let result = read(&mut reader).await.map_err(|error| error.kind());
                results.push((result, start.elapsed()));
            }
            results
        });
        for _ in 0..5 {
            log.note_result(writer.write(b"abc").await);
        }
        log.note(reads.await.unwrap());
    }

    /// The new timeout counts from the next poll. It may end earlier or later than the old timeout.
    async fn a_timeout_that_changes_while_a_read_waits(io, log) {
        let limits = [(10, 30), (30, 10), (10, 9), (10, 5)];
        for (first, second) in limits {
            let arrivals = [(secs(1), 1)];
            let mut reader = pin!(io::TimeoutReader::new(Scripted::new().reads(arrivals)));
            io::limit_reader(reader.as_mut(), Some(ms(first)));
            tokio::select! {
                biased;
                result = read(&mut reader) => log.note_result(result),
                () = sleep(ms(8)) => log.note("canceled"),
            }
            io::limit_reader(reader.as_mut(), Some(ms(second)));
            log.note_result(read(&mut reader).await);
        }
    }

    async fn a_timeout_that_is_set_or_removed_while_an_operation_waits(io, log) {
        let peer = Scripted::new().reads([(secs(1), 1)]).writes([(secs(2), 1)]);
        let mut stream = pin!(io::TimeoutStream::new(peer));
        log.note(poll_once(&mut pin!(read(&mut stream))).await.is_ready());
        io::limit_reads(stream.as_mut(), Some(ms(10)));
        sleep(ms(50)).await;
        log.note_result(read(&mut stream).await);

        log.note(poll_once(&mut pin!(read(&mut stream))).await.is_ready());
        io::limit_reads(stream.as_mut(), None);
        log.note_result(read(&mut stream).await);

        io::limit_writes(stream.as_mut(), Some(ms(10)));
        log.note(poll_once(&mut pin!(stream.write(b"abc"))).await.is_ready());
        io::limit_writes(stream.as_mut(), Some(ms(20)));
        log.note_result(stream.write(b"abc").await);
        io::limit_writes(stream.as_mut(), None);
        log.note_result(stream.write(b"abc").await);
    }

    /// The call wakes the waiting task.
    async fn a_timeout_that_is_set_by_another_task(io, log) {
        for (first, second) in [(Some(secs(50)), Some(ms(20))), (Some(ms(20)), Some(secs(50)))] {
            let reader = io::TimeoutReader::new(Scripted::new().reads([(secs(100), 1)]));
            let reader = Arc::new(Mutex::new(Box::pin(reader)));
            io::limit_reader(reader.lock().unwrap().as_mut(), first);
            let waiting = reader.clone();
            let start = log.start;
            let task = tokio::spawn(async move {
                let mut bytes = [0; 8];
                let mut buf = ReadBuf::new(&mut bytes);
                let read = poll_fn(|cx| waiting.lock().unwrap().as_mut().poll_read(cx, &mut buf));
                let result = read.await.map_err(|error| error.kind());
                (result, start.elapsed())
            });
            sleep(ms(5)).await;
            io::limit_reader(reader.lock().unwrap().as_mut(), second);
            log.note(task.await.unwrap());
        }
    }

    async fn over_a_duplex(io, log) {
        let (client, server) = duplex(4);
        let mut server = pin!(io::TimeoutStream::new(server));
        io::limit_reads(server.as_mut(), Some(ms(10)));
        io::limit_writes(server.as_mut(), Some(ms(15)));
        let client = tokio::spawn(async move {
            let mut client = client;
            sleep(ms(8)).await;
            client.write_all(b"abc").await.unwrap();
            sleep(ms(27)).await;
            client.write_all(b"def").await.unwrap();
            sleep(ms(20)).await;
            let mut bytes = [0; 4];
            client.read_exact(&mut bytes).await.unwrap();
            sleep(ms(40)).await;
            (bytes, client)
        });
        for _ in 0..5 {
            log.note_result(read(&mut server).await);
        }
        for _ in 0..6 {
            log.note_result(server.write(b"xyz").await);
            log.note_result(server.flush().await);
        }
        log.note(client.await.unwrap().0);
        log.note_result(server.shutdown().await);
        log.note_result(read(&mut server).await);
    }

    async fn over_a_mock(io, log) {
        let peer = Builder::new()
            .read(b"abc")
            .wait(ms(8))
            .read(b"def")
            .wait(ms(25))
            .read(b"ghi")
            .write(b"xyz")
            .wait(ms(8))
            .read_error(err())
            .wait(ms(8))
            .read(b"jkl")
            .build();
        let mut server = pin!(io::TimeoutStream::new(peer));
        io::limit_reads(server.as_mut(), Some(ms(10)));
        for _ in 0..5 {
            log.note_result(read(&mut server).await);
        }
        log.note_result(server.write(b"xyz").await);
        for _ in 0..2 {
            log.note_result(read(&mut server).await);
        }
        log.note_result(read(&mut server).await);
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
        let mut server = pin!(io::TimeoutStream::new(peer));
        io::limit_reads(server.as_mut(), Some(ms(10)));
        io::limit_writes(server.as_mut(), Some(ms(10)));
        for _ in 0..2 {
            log.note_result(read(&mut server).await);
        }
        for _ in 0..3 {
            log.note_result(server.write(b"xyz").await);
        }
    }

    async fn operations_without_a_limit_pass_through(io, log) {
        let peer = || Scripted::new().reads([(secs(1), 1)]).writes([(secs(1), 1)]).flushes([secs(1); 2]);
        let mut reader = pin!(io::TimeoutReader::new(peer()));
        io::limit_reader(reader.as_mut(), Some(ms(10)));
        log.note_result(reader.write(b"abc").await);
        log.note_result(reader.flush().await);
        log.note_result(reader.shutdown().await);
        log.note(reader.is_write_vectored());

        let mut writer = pin!(io::TimeoutWriter::new(peer()));
        io::limit_writer(writer.as_mut(), Some(ms(10)));
        log.note_result(read(&mut writer).await);
        log.note(writer.is_write_vectored());

        let mut file = Cursor::new(b"abcdefgh".to_vec());
        let mut reader = pin!(io::TimeoutReader::new(&mut file));
        log.note_result(reader.seek(SeekFrom::Start(3)).await);
        log.note_result(read(&mut reader).await);
        let mut writer = pin!(io::TimeoutWriter::new(file));
        log.note_result(writer.seek(SeekFrom::End(-2)).await);
        log.note_result(writer.write(b"xyz").await);
        log.note(writer.get_ref());
    }

    async fn vectored_writes(io, log) {
        let slices = [IoSlice::new(b"abc"), IoSlice::new(b"defg")];
        let room = || [(ms(5), 7), (ms(40), 7)];
        let mut writer = pin!(io::TimeoutWriter::new(Scripted::new().writes(room())));
        io::limit_writer(writer.as_mut(), Some(ms(10)));
        log.note(writer.is_write_vectored());
        for _ in 0..5 {
            log.note_result(writer.write_vectored(&slices).await);
        }
        let mut stream = pin!(io::TimeoutStream::new(Scripted::new().writes(room())));
        io::limit_writes(stream.as_mut(), Some(ms(10)));
        log.note(stream.is_write_vectored());
        for _ in 0..5 {
            log.note_result(stream.write_vectored(&slices).await);
        }
        let (client, _server) = duplex(4);
        log.note(AsyncWrite::is_write_vectored(&io::TimeoutStream::new(client)));
    }

    async fn the_inner_stream(io, log) {
        let mut stream = io::TimeoutStream::new(Cursor::new(vec![7]));
        stream.get_mut().get_mut().push(8);
        log.note(stream.get_ref());
        let mut stream = pin!(stream);
        stream.as_mut().get_pin_mut().get_mut().get_mut().push(9);
        log.note_result(read(&mut stream).await);

        let mut reader = io::TimeoutReader::new(Cursor::new(vec![7]));
        reader.get_mut().get_mut().push(8);
        log.note(reader.get_ref());
        log.note(reader.into_inner());
        let reader = pin!(io::TimeoutReader::new(Cursor::new(vec![7])));
        log.note(reader.get_pin_mut());

        let mut writer = io::TimeoutWriter::new(Cursor::new(vec![7]));
        writer.get_mut().get_mut().push(8);
        log.note(writer.get_ref());
        log.note(writer.into_inner());
        let writer = pin!(io::TimeoutWriter::new(Cursor::new(vec![7])));
        log.note(writer.get_pin_mut());
        log.note(io::TimeoutStream::new(Cursor::new(vec![7])).into_inner());
    }

    async fn limits_that_are_set_before_the_stream_is_pinned(io, log) {
        let peer = || Scripted::new().reads([(secs(1), 1)]).writes([(secs(2), 1)]);
        let reader = io::reader(peer(), Some(ms(10)));
        log.note_result(read(&mut pin!(reader)).await);

        let writer = io::writer(peer(), Some(ms(10)));
        log.note_result(pin!(writer).write(b"abc").await);

        let stream = io::stream(peer(), Some(ms(10)), Some(ms(20)));
        log.note(io::limits(&stream));
        let mut stream = pin!(stream);
        log.note_result(read(&mut stream).await);
        log.note_result(stream.write(b"abc").await);
    }
}

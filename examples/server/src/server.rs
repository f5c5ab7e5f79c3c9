//! The echo server. `T` is the timer implementation. `util/examples/idle_reaper.rs` is a plain server, to copy.
//!
//! If you copy from this file, write `tokio_wheel::timeout` for `T::timeout`, and `tokio_wheel::sleep_until` for
//! `T::sleep_until`.

use std::{
    io::{self, ErrorKind},
    pin::pin,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    select,
    task::JoinSet,
    time::Instant,
};

use crate::timers::{Sleep as _, Timers};

/// The length of a message in bytes. The server sends each message back unchanged.
pub(crate) const MESSAGE: usize = 64;

/// How long open connections may take to end once the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// How long the server waits for a client.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// How long one read may take inside a message. A client that stops in the middle of a message
    /// is stuck.
    pub(crate) read: Duration,
    /// How long a connection stays open after its last message.
    pub(crate) idle: Duration,
}

/// Why a connection ended.
pub(crate) enum End {
    /// The client closed it.
    Client,
    /// The idle limit passed, and the server noticed at `fired`.
    Idle { deadline: Instant, fired: Instant },
    /// The client stopped in the middle of a message.
    Stalled,
    /// Any other reason.
    Failed,
}

/// Serves one client: echoes its messages until it leaves or is silent for too long.
async fn connection<T: Timers>(mut socket: TcpStream, limits: Limits) -> End {
    let mut message = [0; MESSAGE];
    let mut deadline = Instant::now() + limits.idle;
    let mut idle = pin!(T::sleep_until(deadline));
    loop {
        select! {
            biased; // A message that has arrived wins over a limit that has just passed.
            echoed = echo::<T>(&mut socket, &mut message, limits.read) => match echoed {
                Ok(true) => {}
                Ok(false) => return End::Client,
                Err(error) => return why(&error),
            },
            () = idle.as_mut() => return End::Idle { deadline, fired: Instant::now() },
        }
        // Each connection has one timer for this limit, and each message resets it.
        deadline = Instant::now() + limits.idle;
        idle.as_mut().reset(deadline);
    }
}

/// Receives one message and sends it back. Returns `false` if the client has closed the connection.
async fn echo<T: Timers>(
    socket: &mut TcpStream,
    message: &mut [u8; MESSAGE],
    limit: Duration,
) -> io::Result<bool> {
    let mut filled = 0;
    while filled < MESSAGE {
        match T::timeout(limit, socket.read(&mut message[filled..])).await {
            Ok(Ok(0)) if filled == 0 => return Ok(false),
            Ok(Ok(0)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(Ok(received)) => filled += received,
            Ok(Err(error)) => return Err(error),
            // Between two messages, a client may be silent until the idle limit. A server could
            // send a ping here.
            Err(_) if filled == 0 => {}
            Err(elapsed) => return Err(elapsed.into()),
        }
    }
    socket.write_all(message).await?;
    Ok(true)
}

fn why(error: &io::Error) -> End {
    match error.kind() {
        ErrorKind::TimedOut => End::Stalled,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
            End::Client
        }
        _ => End::Failed,
    }
}

/// Accepts connections and serves them until `stop`. Calls `ended` with each connection's end.
///
/// No connection outlives this function. Connections that are open at `stop` have a grace period to end.
/// Then the function drops them.
pub(crate) async fn serve<T: Timers>(
    listener: TcpListener,
    limits: Limits,
    stop: impl Future<Output = ()> + Send,
    mut ended: impl FnMut(End) + Send,
) {
    let mut stop = pin!(stop);
    let mut connections = JoinSet::new();
    loop {
        select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    // Small messages should leave at once. If this fails, they leave later.
                    let _ = socket.set_nodelay(true);
                    connections.spawn(connection::<T>(socket, limits));
                }
                // The client has left, or descriptors are short. Connections that end release
                // descriptors, so wait a little.
                Err(error) => {
                    eprintln!("failed to accept a connection: {error}");
                    T::sleep_until(Instant::now() + Duration::from_millis(10)).await;
                }
            },
            Some(end) = connections.join_next() => ended(end.unwrap_or(End::Failed)),
            () = stop.as_mut() => break,
        }
    }
    drop(listener);
    let drained = T::timeout(GRACE, async {
        while let Some(end) = connections.join_next().await {
            ended(end.unwrap_or(End::Failed));
        }
    })
    .await;
    if drained.is_err() {
        connections.shutdown().await;
    }
}

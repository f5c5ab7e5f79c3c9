//! The handle for all connections of a server, the guard of each connection, and the state that they share.
//!
//! A connection locks this state when it opens, when its waker changes and when it ends. A request only reads whether the
//! shutdown has begun. No waker runs under the lock.

use std::{
    error::Error,
    fmt,
    future::{Future, poll_fn},
    hash::{BuildHasher as _, RandomState},
    iter, mem,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{
        Notify,
        futures::{Notified, OwnedNotified},
    },
    time::Instant,
};

use super::{
    ended::{Counts, Reason},
    event_polls::EventPolls,
    requests::Requests,
    server_limits::Limits,
};
use crate::limit::{lock, notified, saturating_add};

/// The number of parts of the connections. The shutdown wakes the connections of a part at once.
const PARTS: usize = 256;

/// An age that no connection reaches. Unlike [`Duration::MAX`], it can be multiplied.
const MILLENNIA: Duration = Duration::from_secs(1 << 40);

/// A handle to all connections of a server, which share the same [`Limits`].
///
/// A clone is another handle to the same server. If all handles are dropped, the connections stay open and keep their limits.
///
/// Each connection has a sleep on the default timer of its runtime, so one handle can serve on several runtimes.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::hyper::{Connections, Limits};
///
/// let connections = Connections::new(Limits::new().idle(Duration::from_secs(60)));
/// let guard = connections.open().unwrap();
/// assert_eq!(connections.counts().open(), 1);
/// ```
#[derive(Clone)]
pub struct Connections {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) limits: Limits,
    is_shut_down: IsShutDown,
    state: Mutex<State>,
    pub(super) event_polls: EventPolls,
    /// Wakes the callers of [`Connections::shutdown`] when no connection is open, and full servers when there is room.
    ended: Notify,
}

/// Whether the shutdown has begun. Each poll of a connection reads it, so it shares no cache line with the state.
#[derive(Default)]
#[repr(align(128))]
struct IsShutDown(AtomicBool);

#[derive(Default)]
struct State {
    counts: Counts,
    /// Wake the connections. The shutdown takes them.
    parts: Vec<Arc<Notify>>,
    /// The part of the connection that has waited last for the shutdown.
    part: usize,
}

/// Wakes all connections: one part after the other, so that other tasks run in between.
struct Shutdown(Vec<Arc<Notify>>);

impl Shutdown {
    /// Wakes one part in each poll, and wakes its own task.
    ///
    /// The task then runs after the tasks that are ready. Any idle worker can take all of these tasks. `yield_now`
    /// would instead put the task on a list that only its worker uses. If a connection's task then blocked that worker,
    /// the other connections would wait.
    fn announce(mut self) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            let Some(part) = self.0.pop() else {
                return Poll::Ready(());
            };
            part.notify_waiters();
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }
}

impl Drop for Shutdown {
    /// Wakes the rest at once. The runtime has ended, or there was none.
    fn drop(&mut self) {
        self.0.drain(..).for_each(|part| part.notify_waiters());
    }
}

impl Connections {
    /// Creates a handle for a server that has no connections yet. The call needs no runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// let connections = Connections::new(Limits::new());
    /// assert_eq!(connections.counts().open(), 0);
    /// ```
    pub fn new(limits: Limits) -> Self {
        let parts = iter::repeat_with(Arc::default).take(PARTS).collect();
        let shared = Arc::new(Shared {
            limits,
            is_shut_down: IsShutDown::default(),
            state: Mutex::new(State {
                parts,
                ..State::default()
            }),
            event_polls: EventPolls::default(),
            ended: Notify::new(),
        });
        Self { shared }
    }

    /// Opens a connection. The age and the idle time of the connection start now.
    ///
    /// The connection counts as open until the [`ConnectionGuard`] is dropped. [`ConnectionGuard::serve`] turns the
    /// guard into a [`Drive`](super::Drive). The connection then counts as open until the `Drive` is ready or is
    /// dropped.
    ///
    /// # Errors
    ///
    /// * Returns [`OpenError::Full`] if [`max_connections`](Limits::max_connections) connections are open.
    /// * Returns [`OpenError::Shutdown`] if [`shutdown`](Self::shutdown) has begun.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits, OpenError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let connections = Connections::new(Limits::new());
    /// connections.shutdown().await;
    /// assert_eq!(connections.open().unwrap_err(), OpenError::Shutdown);
    /// # }
    /// ```
    pub fn open(&self) -> Result<ConnectionGuard, OpenError> {
        let limits = &self.shared.limits;
        let limit = limits.max_connections;
        let mut state = self.lock();
        if self.is_shut_down() {
            return Err(OpenError::Shutdown);
        }
        if state.counts.open as usize >= limit {
            return Err(OpenError::Full { limit });
        }
        state.counts.open += 1;
        drop(state);
        // An `f64` has 53 bits of precision.
        let random = (RandomState::new().hash_one(()) >> 11) as f64 / (1_u64 << 53) as f64;
        let share = 1.0 - limits.jitter * random;
        let shortened = |age: Duration| age.min(MILLENNIA).mul_f64(share);
        let max_age = limits.max_age.map_or(MILLENNIA, shortened);
        let opened = Instant::now();
        Ok(ConnectionGuard {
            connections: self.clone(),
            requests: Arc::new(Requests::new(opened)),
            max_age: saturating_add(opened, max_age),
            is_open: true,
        })
    }

    /// Shuts down all connections and waits until the last connection has ended.
    ///
    /// The shutdown begins when the future is first polled:
    ///
    /// * After the first poll, [`open`](Self::open) fails.
    /// * The graceful shutdown of each connection begins. A connection that is already shutting down keeps the rest of its
    ///   grace.
    /// * When the [`grace`](Limits::grace) is over, each connection that is driven has ended.
    ///
    /// Several tasks may call this method, even at the same time.
    ///
    /// With `pipeline_flush` of hyper's HTTP/1 builder, a graceful shutdown loses responses: see
    /// [the limits](super#the-limits).
    ///
    /// # Cancel safety
    ///
    /// If you drop the future before its first poll, the shutdown does not begin. If you drop the future
    /// after its first poll, the shutdown continues. A second call then waits for the end of this shutdown.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let connections = Connections::new(Limits::new());
    /// let guard = connections.open().unwrap();
    /// let waiting = tokio::spawn({
    ///     let connections = connections.clone();
    ///     async move { connections.shutdown().await }
    /// });
    /// tokio::task::yield_now().await;
    /// assert!(!waiting.is_finished());
    /// drop(guard);
    /// waiting.await.unwrap();
    /// # }
    /// ```
    pub async fn shutdown(&self) {
        {
            // Under the lock, so that no connection opens, or begins to wait, without noticing.
            let mut state = self.lock();
            if !self.shared.is_shut_down.0.swap(true, Ordering::Release) {
                let shutdown = Shutdown(mem::take(&mut state.parts));
                drop(state);
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(shutdown.announce());
                }
            }
        }
        loop {
            let ended = self.next_end();
            if self.lock().counts.open == 0 {
                return;
            }
            notified(ended).await;
        }
    }

    /// Returns how many connections are open, and how many have ended for each reason.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// let connections = Connections::new(Limits::new());
    /// let guards = [(); 3].map(|()| connections.open().unwrap());
    /// assert_eq!(connections.counts().open(), 3);
    /// ```
    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// Returns a future that ends when no connection is open, or when the server is no longer full, even if it is first
    /// polled later.
    pub(super) fn next_end(&self) -> Notified<'_> {
        self.shared.ended.notified()
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.shared.is_shut_down.0.load(Ordering::Acquire)
    }

    /// Returns a future that ends when the shutdown begins, even if it is first polled later. Returns `None` if the
    /// shutdown has begun.
    pub(super) fn next_shutdown(&self) -> Option<OwnedNotified> {
        let state = &mut *self.lock();
        state.part = (state.part + 1) % PARTS;
        let part = state.parts.get(state.part)?;
        Some(part.clone().notified_owned())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("limits", &self.shared.limits)
            .field("counts", &self.counts())
            .finish()
    }
}

/// The error of [`Connections::open`](super::Connections::open).
///
/// # Examples
///
/// ```
/// use tokio_wheel_util::hyper::{Connections, Limits};
///
/// let connections = Connections::new(Limits::new().max_connections(1));
/// let _first = connections.open().unwrap();
/// let error = connections.open().unwrap_err();
/// assert_eq!(error.to_string(), "cannot open a connection: at most 1 may be open");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The number of open connections has reached
    /// [`Limits::max_connections`](super::Limits::max_connections).
    #[non_exhaustive]
    Full {
        /// The largest number of connections that may be open.
        limit: usize,
    },
    /// [`Connections::shutdown`](super::Connections::shutdown) has begun.
    Shutdown,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limit } => {
                write!(f, "cannot open a connection: at most {limit} may be open")
            }
            Self::Shutdown => f.write_str("cannot open a connection: the server is shutting down"),
        }
    }
}

impl Error for OpenError {}

/// An open connection of a server.
///
/// [`Connections::open`](super::Connections::open) returns a guard. The connection counts as open until the guard
/// is dropped, or until the [`Drive`](super::Drive) that [`serve`](Self::serve) returns is ready or dropped.
///
/// # Examples
///
/// [`Ended`](super::Ended) has an example with one connection, and the [module](super) has one of a server.
#[derive(Debug)]
#[must_use = "the connection no longer counts as open when it is dropped"]
pub struct ConnectionGuard {
    pub(super) connections: Connections,
    pub(super) requests: Arc<Requests>,
    /// The instant at which the connection reaches its maximum age.
    pub(super) max_age: Instant,
    /// Whether the end of the connection was not counted yet.
    is_open: bool,
}

impl ConnectionGuard {
    /// Counts the end of the connection: its reason, and whether it was cut. `None` stands for a connection that is
    /// dropped before it has ended.
    pub(super) fn end(&mut self, end: Option<(Reason, bool)>) {
        if !mem::take(&mut self.is_open) {
            return;
        }
        let mut state = self.connections.lock();
        let counts = &mut state.counts;
        let was_full = counts.open as usize >= self.connections.shared.limits.max_connections;
        counts.open -= 1;
        match end {
            Some((reason, is_cut)) => {
                *counts.ended.entry(reason).or_default() += 1;
                counts.cut += u64::from(is_cut);
            }
            None => counts.dropped += 1,
        }
        let is_awaited = was_full || counts.open == 0;
        drop(state);
        if is_awaited {
            self.connections.shared.ended.notify_waiters();
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.end(None);
    }
}

//! The handle for all connections of a server, the guard of each connection, and the state that they share.
//!
//! A connection locks this state when it opens, when its waker changes, when it checks its limits and when it ends. A
//! request only reads the number of changes. No waker runs under the lock.

use std::{
    error::Error,
    fmt,
    future::{Future, poll_fn},
    hash::{BuildHasher as _, RandomState},
    iter, mem,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
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
    requests::Requests,
    server_limits::Limits,
};
use crate::limit::{lock, saturating_add};

/// The number of parts of the connections. A change wakes the connections of a part at once.
const PARTS: usize = 256;

/// A handle for all connections of a server. These connections share the same [`Limits`].
///
/// A clone is another handle for the same server. If all handles are dropped, the connections stay open and
/// keep their limits.
///
/// Each connection has a sleep of the default timer of its runtime. So a handle may serve on several runtimes.
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
    shared: Arc<Shared>,
}

struct Shared {
    limits: Limits,
    changes: Changes,
    state: Mutex<State>,
    /// Wakes the callers of [`Connections::shutdown`] when no connection is open, and full servers when there is room.
    ended: Notify,
}

/// The number of changes that connections must learn of. Each poll of a connection reads it, so it shares no cache
/// line with the state.
#[derive(Default)]
#[repr(align(128))]
struct Changes(AtomicUsize);

#[derive(Default)]
struct State {
    counts: Counts,
    /// The pressure, from 0 to 1.
    pressure: f64,
    is_shut_down: bool,
    /// Each change replaces it.
    next_change: Change,
    /// The part of the connection that has waited last for the next change.
    part: usize,
}

/// Wakes all connections at a change: one part after the other, so that other tasks run in between.
struct Change(Vec<Arc<Notify>>);

impl Default for Change {
    fn default() -> Self {
        Self(iter::repeat_with(Arc::default).take(PARTS).collect())
    }
}

impl Change {
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

impl Drop for Change {
    /// Wakes the rest at once. The runtime has ended, or there was none.
    fn drop(&mut self) {
        self.0.drain(..).for_each(|part| part.notify_waiters());
    }
}

impl Connections {
    /// Creates a handle for a server that has no connections yet. The call needs no runtime.
    ///
    /// # Panics
    ///
    /// Panics if [`min_idle`](Limits::min_idle) is longer than [`idle`](Limits::idle).
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// let connections = Connections::new(Limits::new());
    /// assert_eq!(connections.counts().open(), 0);
    /// ```
    #[track_caller]
    pub fn new(limits: Limits) -> Self {
        if let (Some(least), Some(idle)) = (limits.min_idle, limits.idle) {
            assert!(
                least <= idle,
                "min_idle must be at most idle ({idle:?}), got {least:?}"
            );
        }
        let shared = Arc::new(Shared {
            limits,
            changes: Changes::default(),
            state: Mutex::default(),
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
        let limits = self.limits();
        let limit = limits.max_connections;
        let mut state = self.lock();
        if state.is_shut_down {
            return Err(OpenError::Shutdown);
        }
        if state.counts.open as usize >= limit {
            return Err(OpenError::Full { limit });
        }
        state.counts.open += 1;
        drop(state);
        // An `f64` has 53 bits of precision.
        let random = (RandomState::new().hash_one(()) >> 11) as f64 / (1_u64 << 53) as f64;
        let jitter = |age| share_of(age, limits.jitter * random);
        let max_age = (limits.max_age).map_or(Duration::MAX, |age| age - jitter(age));
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
    /// * The graceful shutdown of each connection begins. If the graceful shutdown of a connection has
    ///   already begun, the connection keeps the rest of its grace.
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
            let mut state = self.lock();
            if !mem::replace(&mut state.is_shut_down, true) {
                self.announce_change(state);
            }
        }
        loop {
            let ended = self.next_end();
            if self.counts().open == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Sets the pressure, from 0 to 1. A higher pressure shortens the idle limit of all connections.
    ///
    /// Raise the pressure when the server has too few file descriptors or too little memory. The connections
    /// with the longest idle time end first. A request that the kernel has received by then is answered.
    ///
    /// | pressure | idle limit |
    /// |---|---|
    /// | 0, the default | [`idle`](Limits::idle) |
    /// | between 0 and 1 | between `idle` and `min_idle`, in proportion to the pressure |
    /// | 1 | [`min_idle`](Limits::min_idle) |
    ///
    /// NaN and all numbers below 0 have the same effect as 0. Numbers above 1 have the same effect as 1.
    ///
    /// The new limit applies at once. It also applies to connections that are already idle.
    ///
    /// A call that raises the pressure wakes all connections, because each of them computes its deadline again. So
    /// raise the pressure in few large steps. Within a runtime, a task wakes
    /// the connections and lets other tasks run in between. Outside a runtime, the calling thread wakes them. A call
    /// that lowers the pressure wakes no connection.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_wheel::Duration;
    /// use tokio_wheel_util::hyper::{Connections, Limits};
    ///
    /// let limits = Limits::new()
    ///     .idle(Duration::from_secs(60))
    ///     .min_idle(Duration::from_secs(10));
    /// let connections = Connections::new(limits);
    /// let (open, allowed) = (900.0, 1_000.0);
    /// connections.set_pressure((open / allowed - 0.8) / 0.2); // The idle limit is 35 s now.
    /// ```
    pub fn set_pressure(&self, pressure: f64) {
        // NaN is 0.
        let pressure = if pressure > 0.0 { pressure } else { 0.0 };
        let pressure = pressure.min(1.0);
        let mut state = self.lock();
        let before = mem::replace(&mut state.pressure, pressure);
        // With a lower pressure, the connections find their longer limit when the shorter limit ends.
        if pressure > before && self.limits().min_idle.is_some() {
            self.announce_change(state);
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

    pub(super) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Returns the current idle limit, or `None` after the shutdown has begun.
    pub(super) fn idle(&self) -> Option<Duration> {
        let state = self.lock();
        let limit = match (self.limits().idle, self.limits().min_idle) {
            (Some(idle), Some(least)) => idle - share_of(idle - least, state.pressure),
            (idle, _) => idle.unwrap_or(Duration::MAX),
        };
        (!state.is_shut_down).then_some(limit)
    }

    /// Returns a future that ends when no connection is open, or when the server is no longer full, even if it is first
    /// polled later.
    pub(super) fn next_end(&self) -> Notified<'_> {
        self.shared.ended.notified()
    }

    /// Returns the number of changes.
    pub(super) fn changes(&self) -> usize {
        self.shared.changes.0.load(Ordering::Acquire)
    }

    /// Returns the number of changes, and a future that ends at the next change, even if it is first polled later.
    pub(super) fn next_change(&self) -> (usize, OwnedNotified) {
        let mut state = self.lock();
        state.part = (state.part + 1) % PARTS;
        let change = state.next_change.0[state.part].clone().notified_owned();
        (self.changes(), change)
    }

    /// Wakes all connections, so that they read the new state.
    fn announce_change(&self, mut state: MutexGuard<'_, State>) {
        self.shared.changes.0.fetch_add(1, Ordering::Release);
        let change = mem::take(&mut state.next_change);
        drop(state);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(change.announce());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("limits", self.limits())
            .field("counts", &self.counts())
            .finish()
    }
}

/// Returns `duration` times `fraction`, where `fraction` is from 0 to 1.
fn share_of(duration: Duration, fraction: f64) -> Duration {
    // The product of a very long duration may round up to more than a `Duration` can hold.
    let share = Duration::try_from_secs_f64(duration.as_secs_f64() * fraction);
    share.map_or(duration, |share| share.min(duration))
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
/// The example of [`Ended`](super::Ended) serves one connection. The example of the [module](super) shows a
/// server.
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
        let was_full = counts.open as usize >= self.connections.limits().max_connections;
        counts.open -= 1;
        match end {
            Some((reason, is_cut)) => {
                counts.ended.0[reason as usize] += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_the_duration() {
        let minute = Duration::from_secs(60);
        for (fraction, secs) in [(0.0, 0), (0.25, 15), (1.0, 60)] {
            let share = share_of(minute, fraction);
            assert_eq!(share, Duration::from_secs(secs), "{fraction}");
        }
        assert_eq!(share_of(Duration::MAX, 1.0), Duration::MAX);
        assert!(share_of(Duration::MAX, 0.5) > Duration::from_secs(500 * 365 * 86_400));
    }
}

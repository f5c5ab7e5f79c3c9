//! Sessions without a socket: tasks that wait until they expire, like the sessions of a broker.
//!
//! A session takes no file descriptor, so there may be far more sessions than connections.

use std::{sync::Arc, time::Duration};

use tokio::{task::yield_now, time::Instant};

use crate::{figures::Lateness, timers::Timers};

/// How many sessions the spawning task makes before it yields.
const TURN: usize = 1_000;

/// Returns how long [`open`] may take. On an idle machine it takes far less.
pub(crate) fn time_to_open(count: usize) -> Duration {
    Duration::from_micros(2) * u32::try_from(count).unwrap_or(u32::MAX)
}

/// Opens sessions that all expire at the same instant. Records in `ended` how late each session ended.
pub(crate) async fn open<T: Timers>(count: usize, expire: Instant, ended: Arc<Lateness>) {
    for number in 0..count {
        tokio::spawn(session::<T>(number, expire, Arc::clone(&ended)));
        if number % TURN == 0 {
            yield_now().await;
        }
    }
}

async fn session<T: Timers>(number: usize, expire: Instant, ended: Arc<Lateness>) {
    T::sleep_until(expire).await;
    ended.add(number, expire, Instant::now());
}

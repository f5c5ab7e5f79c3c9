//! Makes very many timers expire in one tick, or drops them at once. The timer for storms lives
//! through all epochs, so the memory of a storm must be freed after the storm.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use fastrand::Rng;
use tokio::{runtime::Handle, task::spawn_blocking};
use tokio_wheel::{Duration, Instant};

use crate::{ops::is_pending, target::Target};

/// The number of timers in a storm: those of the largest intended server, in a bad moment.
const SIZE: usize = 200_000;

/// The number of tasks of a storm in which tasks have more than one timer.
const CROWDS: usize = 100;

/// The time from the first registration until all timers expire, about that of all registrations.
const AHEAD: Duration = Duration::from_secs(2);

pub static DONE: AtomicU64 = AtomicU64::new(0);

pub fn storm(runtime: &Handle, target: &Arc<Target>, rng: &mut Rng) {
    let deadline = Instant::now() + AHEAD;
    let (tasks, sleeps) = match rng.bool() {
        true => (SIZE / 4, 1),
        false => (CROWDS, SIZE / CROWDS),
    };
    let is_dropped = rng.bool();
    for _ in 0..tasks {
        let mut crowd: Vec<_> = (0..sleeps).map(|_| target.sleep_until(deadline)).collect();
        runtime.spawn(async move {
            for sleep in &mut crowd {
                let _ = is_pending(sleep).await;
            }
            if is_dropped && sleeps > 1 {
                // Drops the timers on a thread that registered none of them.
                return spawn_blocking(|| drop(crowd)).await.unwrap_or_default();
            }
            // `join_all` would not do: once a task's budget is used up, tokio keeps a waker for
            // each future, in a list that never shrinks.
            for sleep in crowd {
                sleep.await;
            }
        });
    }
    DONE.fetch_add(1, Relaxed);
}

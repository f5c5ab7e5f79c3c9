//! Makes very many timers expire in one tick, or drops them at once. The timer for storms has no
//! other entries, so its counts are exact. It lives through all epochs, so the memory of a storm
//! must be freed after the storm.

use std::{
    future::poll_fn,
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use fastrand::Rng;
use tokio::{
    runtime::Runtime,
    task::{coop::unconstrained, spawn_blocking},
};
use tokio_wheel::{Duration, Instant};

use crate::{
    faults,
    join_set::JoinSet,
    target::{Target, Tracked},
};

/// The number of timers in a storm. The largest intended server has this many in one tick in a bad
/// moment.
pub const SIZE: usize = 200_000;

/// The number of timers in a storm of a saturated epoch. Such a storm may take long, which is
/// lateness and not a fault. It must end before its timers count as lost.
pub const SATURATED_SIZE: usize = SIZE / 20;

/// The number of tasks that share the timers.
const CROWDS: usize = 100;

/// The time from the first registration until all timers expire. The registration of all timers
/// takes about this long.
const AHEAD: Duration = Duration::from_secs(2);

static STORMS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Each timer has a task of its own. The storm has fewer timers.
    Tasks,
    /// Each task has very many timers.
    Crowds,
    /// Each task has very many timers and drops them all at once.
    Dropped,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Tasks, Self::Crowds, Self::Dropped];
}

/// Runs a storm of one kind, from its first timer to its last, on a target without other timers.
/// Returns whether the storm ended.
pub fn storm(runtime: &Runtime, target: &Arc<Target>, size: usize, rng: &mut Rng) -> bool {
    let timer = target.timer();
    let before = timer.metrics();
    let registered = Arc::new(AtomicU64::new(0));
    let deadline = Instant::now() + AHEAD;
    let sleep = || target.sleep_until(deadline);
    let mut join_set = JoinSet::default();
    let kind = *rng.choice(&Kind::ALL).expect("there are some");
    match kind {
        Kind::Tasks => {
            let task = |sleep| {
                let task = register(vec![sleep], registered.clone());
                runtime.spawn(async {
                    for sleep in task.await {
                        sleep.await;
                    }
                })
            };
            let tasks: Vec<_> = (0..size / 4).map(|_| task(sleep())).collect();
            // `join_all` would not do: once a task's budget is used up, tokio keeps a waker for
            // each future, in a list that never shrinks.
            let all = async {
                for task in tasks {
                    task.await.unwrap_or_default();
                }
            };
            join_set.task("the tasks of a storm", runtime.spawn(all));
        }
        Kind::Crowds | Kind::Dropped => {
            for _ in 0..CROWDS {
                let crowd = (0..size / CROWDS).map(|_| sleep()).collect();
                let crowd = register(crowd, registered.clone());
                let crowd = async move {
                    let crowd = crowd.await;
                    if kind == Kind::Crowds {
                        // The loop avoids `join_all` for the same reason.
                        for sleep in crowd {
                            sleep.await;
                        }
                    } else {
                        // Drops the timers on a thread that registered none of them.
                        spawn_blocking(|| drop(crowd)).await.unwrap_or_default();
                    }
                };
                join_set.task("a crowd of a storm", runtime.spawn(crowd));
            }
        }
    }
    let has_ended = join_set.join();
    let after = timer.metrics();
    let expected = registered.load(Ordering::SeqCst);
    let is_exact = after.pending() == 0
        && after.registered() - before.registered() == expected
        && (kind == Kind::Dropped || after.fired() - before.fired() == expected);
    if has_ended && !is_exact {
        faults::found(format!(
            "{expected} were registered in a storm: {before:?}, and then {after:?}"
        ));
    }
    STORMS.fetch_add(1, Ordering::Relaxed);
    has_ended
}

/// Returns how many storms there have been.
pub fn so_far() -> u64 {
    STORMS.load(Ordering::Relaxed)
}

/// Polls each sleep once, and counts the pending sleeps, which are then registered. No sleep may
/// have expired yet: once the task's budget is used up, an expired sleep would be pending too.
async fn register(mut sleeps: Vec<Tracked>, registered: Arc<AtomicU64>) -> Vec<Tracked> {
    let polled = poll_fn(|cx| {
        sleeps.retain_mut(|sleep| sleep.is_pending(cx));
        registered.fetch_add(sleeps.len() as u64, Ordering::SeqCst);
        Poll::Ready(mem::take(&mut sleeps))
    });
    unconstrained(polled).await
}

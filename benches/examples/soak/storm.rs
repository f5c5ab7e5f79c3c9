//! Very many timers due in one tick, or dropped at once, on a timer of their own whose counts are exact. It lives all
//! along, so the memory that a storm took has to come back from it.

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

/// So many timers. The largest of servers that is planned for has them per tick at a bad time.
pub const SIZE: usize = 200_000;

/// So many in a saturated epoch. There a storm may take long, which is lateness and not a fault. It must end
/// before its timers count as lost.
pub const SATURATED_SIZE: usize = SIZE / 20;

/// Tasks that share them.
const CROWDS: usize = 100;

/// From when the first is registered until all are due: it takes as long to register them.
const AHEAD: Duration = Duration::from_secs(2);

static STORMS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A task for each, of fewer.
    Tasks,
    /// Very many in each task.
    Crowds,
    /// The same, dropped all at once.
    Dropped,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Tasks, Self::Crowds, Self::Dropped];
}

/// A storm of one kind, from its first timer to its last, of a target that has no other timers. Says
/// whether it came to an end.
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
            // Not by `join_all`: once a task's budget is used up, tokio would keep a waker for each, in
            // a list that never shrinks.
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
                        // Neither are these joined.
                        for sleep in crowd {
                            sleep.await;
                        }
                    } else {
                        // On a thread that registered none of them.
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

/// How many there have been.
pub fn so_far() -> u64 {
    STORMS.load(Ordering::Relaxed)
}

/// Polls each once, and counts those that are pending, which thereby are registered. A sleep that is due
/// already would be pending as well once the task's budget is used up, so there is none.
async fn register(mut sleeps: Vec<Tracked>, registered: Arc<AtomicU64>) -> Vec<Tracked> {
    let polled = poll_fn(|cx| {
        sleeps.retain_mut(|sleep| sleep.is_pending(cx));
        registered.fetch_add(sleeps.len() as u64, Ordering::SeqCst);
        Poll::Ready(mem::take(&mut sleeps))
    });
    unconstrained(polled).await
}

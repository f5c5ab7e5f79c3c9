//! A set of keys that come out when they go untouched.
//!
//! Servers drop connections that have been silent for too long. Their classic device is a wheel of
//! buckets: whoever hears from a connection puts it into the newest bucket, and the oldest one is
//! emptied every second. Here is that device with a timeout for each key and exact to a
//! millisecond. [`IdleSet`] is the side of the connections, a handle that any number of tasks
//! clone: to [`touch`](IdleSet::touch) a key inserts or re-arms it, to [`remove`](IdleSet::remove)
//! it takes it out. [`Reaper`] is the other side, a stream of the keys that nobody touched in time.
//!
//! ```
//! use tokio_wheel::{Duration, Instant, idle::IdleSet, sleep};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let start = Instant::now();
//! let (set, mut reaper) = IdleSet::new(Duration::from_secs(30));
//! set.touch("talks");
//! set.touch("is silent");
//! set.touch("leaves");
//!
//! sleep(Duration::from_secs(20)).await;
//! set.touch("talks");
//! assert_eq!(set.remove("leaves"), Some("leaves".to_owned()));
//!
//! assert_eq!(reaper.reap().await, Some("is silent".to_owned()));
//! assert_eq!(start.elapsed(), Duration::from_secs(30));
//! assert_eq!(reaper.reap().await, Some("talks".to_owned()));
//! assert_eq!(start.elapsed(), Duration::from_secs(50));
//!
//! // Nobody is left to touch a key.
//! drop(set);
//! assert_eq!(reaper.reap().await, None);
//! # }
//! ```
//!
//! # What happens to a key
//!
//! | State   | Is in the set, and     | Left through                                                |
//! |---------|------------------------|-------------------------------------------------------------|
//! | absent  | it is not              | a touch, which inserts it                                   |
//! | waiting | its deadline is ahead  | removal, or its deadline; a touch moves that                |
//! | due     | its deadline is over   | removal, a touch, which makes it wait again, or the reaper, which returns it |
//!
//! A key is in the set once, however often it is touched. It leaves the set once for each time
//! that it was inserted: by a removal or through the reaper. A touch or a removal wins until the
//! reaper returns the key.
//!
//! A key's deadline is its timeout after its last touch. A key is never early, as deadlines round up
//! to a tick. Keys come out in the order of their deadlines, those of one tick in no certain order.
//! One whose deadline is over already when it is set comes out next.
//!
//! When the last handle is dropped, what is left comes out when it is due, and then the stream
//! ends. When the reaper is dropped, the set is closed: it is empty and stays so.
//!
//! # What it costs
//!
//! A touch costs a hash, a look at the clock, an uncontended lock and a look-up in a hash table:
//! to put a deadline off is to store it. The keys are spread over shards with a lock each, four for
//! each processor unless the [`Builder`] is told otherwise, so that tasks seldom meet at one. Touches write to nothing that all shards share,
//! except to wake the reaper when a deadline comes before all that it waits for.
//!
//! Memory grows with the number of keys, a shard at a time, and goes back when they are gone. A
//! shard that grows moves its keys under its lock: with more shards, that takes less time.
//
// # How it works
//
// `set`: the handle. It hashes the key, reads the clock and goes to one `shard`, where the keys
// are. `reaper`: the stream. It goes to the shards one after the other. `bell`: how the one wakes
// the other. `shard` has the invariants of the structure, `bell` those of waking.

mod bell;
mod builder;
#[cfg(all(test, tokio_wheel_loom))]
mod loom_tests;
mod reaper;
mod set;
mod shard;
mod table;

pub use builder::Builder;
pub use reaper::Reaper;
pub use set::IdleSet;

use std::{task::Waker, time::Duration};

use crate::{clock::Clock, wheel::Tick};

use bell::Bell;
use shard::Shard;

/// The tick of a set that names no timer.
const TICK: Duration = Duration::from_millis(1);

/// What the handles and the reaper share.
struct Core<K> {
    clock: Clock,
    shards: Box<[Shard<K>]>,
    bell: Bell,
}

impl<K> Core<K> {
    fn new(clock: Clock, shards: usize) -> Self {
        let now = clock.now();
        Self {
            clock,
            shards: (0..shards).map(|_| Shard::new(now)).collect(),
            bell: Bell::new(),
        }
    }

    /// The shard that 32 bits of a key's hash choose.
    #[inline]
    fn shard(&self, chooser: u32) -> &Shard<K> {
        let number = (u64::from(chooser) * self.shards.len() as u64) >> 32;
        &self.shards[number as usize]
    }

    fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// For the reaper, when nothing is due up to the armed tick or `now`: leaves its waker, and
    /// arms the bell for when something is, unless it is armed for a later tick than `now`.
    fn wait(&self, waker: &Waker, now: Tick) -> Wait {
        let abandoned = self.bell.leave(waker);
        if self.bell.armed() <= now {
            let look = || self.shards.iter().filter_map(Shard::next_expiration).min();
            self.bell.arm(look);
        }
        Wait {
            until: self.bell.armed(),
            abandoned,
        }
    }
}

/// What the reaper waits for.
struct Wait {
    /// No deadline of the set is before this tick, and the waker is woken for one that comes to be.
    until: Tick,
    /// Whether there is no handle any more.
    abandoned: bool,
}

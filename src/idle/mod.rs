//! A set of keys that expire when no task touches them in time.
//!
//! Servers close connections that have been silent for too long. The usual tool is a wheel of
//! buckets. A connection that sends something moves to the newest bucket. Every second, the server
//! empties the oldest bucket. This module replaces that wheel. Each key can have its own timeout,
//! and deadlines are exact to one millisecond.
//!
//! The connections share an [`IdleSet`], a handle that any number of tasks may clone:
//!
//! * [`touch`](IdleSet::touch) inserts a key or postpones its deadline.
//! * [`touch_existing`](IdleSet::touch_existing) postpones the deadline and never inserts.
//! * [`remove`](IdleSet::remove) removes the key.
//!
//! One task owns the [`Reaper`], a stream that removes and returns the keys that have expired.
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
//! // No handle is left, so no task can touch a key.
//! drop(set);
//! assert_eq!(reaper.reap().await, None);
//! # }
//! ```
//!
//! # What happens to a key
//!
//! | State   | Meaning                              | Events that end the state                              |
//! |---------|--------------------------------------|--------------------------------------------------------|
//! | absent  | The key is not in the set.           | `touch` inserts it.                                    |
//! | waiting | The deadline has not passed.         | The key is removed or shed, or its deadline passes.    |
//! | expired | The deadline has passed.             | The key is removed or shed, a touch postpones it, or the reaper returns it. |
//!
//! A key is in the set at most once, however often tasks touch it. Each inserted key leaves the set
//! exactly once. Until the reaper returns an expired key, a touch or a removal still succeeds.
//!
//! A key's deadline is its last touch plus its timeout, rounded up to a tick. [Pressure](#overload)
//! makes deadlines earlier. [`reap`](Reaper::reap) never returns a key before its deadline;
//! [`shed`](Reaper::shed) does. Both return keys in the order of their deadlines. Keys with
//! deadlines in the same tick come in any order.
//!
//! When the last handle is dropped, the reaper still returns the remaining keys as they expire.
//! Then the stream ends. When the reaper is dropped, the set is closed: it is empty and stays
//! empty.
//!
//! # A touch that comes too late
//!
//! Once the reaper has returned a key, `touch` inserts it again, and `touch_existing` returns
//! [`Touched::Absent`]. A server should therefore do the following:
//!
//! * Insert the key with `touch` when the connection begins.
//! * Use `touch_existing` afterwards.
//! * Close the connection when the reaper returns its key.
//!
//! Otherwise, data that arrives at the last moment would insert the key again although its
//! connection is closed.
//!
//! # Overload
//!
//! A server that runs out of a resource can close its most silent connections early, in two ways:
//!
//! * [`Reaper::shed`] returns a number of keys now, beginning with the keys closest to their
//!   deadlines.
//! * [`IdleSet::set_pressure`] shortens all timeouts. A pressure of 0 has no effect, and a pressure
//!   of 1 shortens them to [`Builder::min_timeout`]. The deadlines move at once, and move back when
//!   the pressure falls.
//!
//! Pressure and sheds do not change the cost of a touch. Some insertions after a shed cost more:
//! see [`Reaper::shed`]. The example `examples/idle_reaper.rs` uses both ways when file descriptors
//! run short.
//!
//! The table shows processor times for a million keys, last touched evenly over the last minute.
//! They were measured with `benches/examples/overload.rs` on two cores of an AMD EPYC.
//!
//! | operation                                         | each key touched once | half of them again |
//! |---------------------------------------------------|-----------------------|--------------------|
//! | the first `shed(1000)`                            | 0.7 to 0.8 ms         | 1.5 to 1.9 ms      |
//! | later calls of `shed(1000)`, median               | 0.3 to 0.4 ms         | 0.6 to 0.8 ms      |
//! | the longest call, which reaches a coarse slot     | 5 to 10 ms            | 7 to 8 ms          |
//! | `set_pressure`, from 0 to 0.5                     | 2 µs                  | 2 µs               |
//! | the reaper afterwards, for each expired key       | 0.4 µs                | 0.7 to 0.9 µs      |
//!
//! If all keys were touched again, the first shed key costs 0.4 s. In that time the shed yields
//! 1,558 times.
//!
//! # What it costs
//!
//! A touch costs a hash, a read of the clock, an uncontended lock and a lookup in a hash table. To
//! postpone a deadline, a touch stores a single value. A touch wakes the reaper only if its
//! deadline is earlier than all others. Otherwise it writes only to its shard.
//!
//! The keys are spread over shards. Each shard has its own lock, so tasks seldom contend for a
//! lock. A set begins with one shard. With five small keys it takes 14 KiB: 6 KiB for a wheel, 6
//! KiB for its first 256 entries, and the rest for the keys and the shared state.
//!
//! A shard splits when it has 112 keys, or when threads often contend for its lock.
//! [`Builder::shards`] limits the number of shards. A split moves at most 112 keys and holds the
//! lock for 6 µs on average.
//!
//! The memory of a shard grows and shrinks with the number of its keys. When the hash table of a
//! shard grows or shrinks, its keys move to a new table. Each operation on the shard moves at most
//! 64 keys. Until all keys have moved, both tables are in memory.
//!
//! With a million keys in one shard or in 8, no lock was held for longer than 20 µs of processor
//! time. The operation that needs a new table allocates it without the lock. The operation that
//! empties an old table frees it without the lock. In a shard of 125,000 keys, the allocation takes
//! 0.6 ms and the release takes 1.4 ms.
//
// How it works
//
// The files, from the handle to the hash table:
//
// * `set`: the handle. It hashes the key, reads the clock and calls one shard.
// * `reaper`: the stream. For each tick it visits all shards in one `round`.
// * `shed`: returns keys before their deadlines, also round by round.
// * `core`: the state that handles and reaper share, and the protocol by which a touch wakes the
//   reaper.
// * `behind`: the entries whose tick a shed has passed.
// * `pace`: the pressure, and the lead of the wheels over the clock.
// * `shards`: splits shards, finds the shard of a key, and iterates over all shards.
// * `digest`: the stored part of a key's hash, and which keys belong to a shard.
// * `shard`: a table of keys and a wheel behind one lock.
// * `table`: the hash table of a shard.
//
// Each file states its own invariants.

mod behind;
mod builder;
mod core;
mod digest;
#[cfg(all(test, tokio_wheel_loom))]
mod loom_tests;
mod pace;
mod reaper;
mod round;
mod set;
mod shard;
mod shards;
mod shed;
mod table;

pub use builder::Builder;
pub use reaper::Reaper;
pub use set::{IdleSet, Touched};
pub use shed::Shed;

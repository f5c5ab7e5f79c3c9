//! A set of keys that expire when no task touches them in time.
//!
//! Servers close connections that have been silent for too long. The usual tool is a ring of
//! buckets: when a connection sends something, the server moves it to the newest bucket, and every
//! second it empties the oldest one. This module replaces such a ring. Each key can have its own
//! timeout, and deadlines are accurate to one millisecond.
//!
//! The connections share an [`IdleSet`]. Any number of tasks may clone this handle and use its
//! methods:
//!
//! * [`touch`](IdleSet::touch) inserts a key, or postpones the key's deadline.
//! * [`touch_existing`](IdleSet::touch_existing) postpones the deadline of a key. It never inserts
//!   a key.
//! * [`remove`](IdleSet::remove) removes a key.
//!
//! One task owns the [`Reaper`], a stream that removes and returns the keys that have expired.
//!
//! ```
//! use tokio_wheel::{Duration, Instant, sleep};
//! use tokio_wheel_util::idle::IdleSet;
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
//! | State   | Meaning                      | Events that end the state                                |
//! |---------|------------------------------|----------------------------------------------------------|
//! | absent  | The key is not in the set.   | `touch` inserts it.                                      |
//! | waiting | The deadline has not passed. | A task removes or sheds the key, or the deadline passes. |
//! | expired | The deadline has passed.     | A task touches, removes, sheds or reaps the key.         |
//!
//! A key is in the set at most once, however often tasks touch it. Each inserted key leaves the set
//! exactly once. A task can still touch or remove an expired key until the reaper returns the key.
//!
//! A key's deadline is the time of its last touch plus its timeout, rounded up to a tick.
//! [`reap`](Reaper::reap) never returns a key before its deadline, but [`shed`](Reaper::shed) does. Both methods return keys in the order of their
//! deadlines. If several keys have deadlines in one tick, these keys come in any order.
//!
//! After the last handle is dropped, the reaper still returns each remaining key when the key
//! expires. Then the stream ends. When the reaper is dropped, the set is closed. A closed set is
//! empty and stays empty.
//!
//! # A touch that comes too late
//!
//! Once the reaper has returned a key, `touch` inserts it again, and `touch_existing` returns
//! [`Touched::Absent`]. So a server should follow these rules:
//!
//! * Insert the key with `touch` when the connection begins.
//! * Touch the key with `touch_existing` afterwards.
//! * Close the connection when the reaper returns its key.
//!
//! If a server uses only `touch`, data that arrives late can insert the key again after the
//! connection is closed.
//!
//! # Overload
//!
//! A server that runs out of a resource can close the connections that have been silent for the
//! longest time: [`Reaper::shed`] removes and returns the key that is closest to its deadline, without
//! waiting. Some insertions after a shed cost more. The server in `examples/idle_reaper.rs` sheds when it
//! is full.
//!
//! # Cost
//!
//! A touch hashes the key, reads the clock, takes a lock and looks up the key in a hash table. To
//! postpone a deadline, the touch then stores a single value. A touch that postpones a deadline
//! writes only to the shard of its key. A touch wakes the reaper only if it sets the earliest
//! deadline of the set.
//!
//! The keys are spread over shards. Each shard has its own lock, so tasks seldom contend for a
//! lock. [`Builder::shards`] sets the number of shards. A shard takes memory from the insertion of
//! its first key: 6 KiB for its wheel, and 6 KiB for the wheel's first 256 entries. So a set with
//! five small keys takes up to 64 KiB, or 14 KiB with one shard.
//!
//! The memory of a shard grows and shrinks with the number of its keys. When the hash table of a
//! shard grows or shrinks, its keys move to a new table. Each operation on the shard moves at most
//! 64 keys. Until all keys have moved, both tables are in memory.
//!
//! The operation that needs a new table allocates it without the lock. The operation that empties an
//! old table frees it without the lock.
//
// How it works
//
// The files, from the handle to the hash table:
//
// * `set`: the handle. It hashes the key, reads the clock and locks the shard of the key.
// * `reaper`: the stream of expired keys. For each tick, it visits all shards in one sweep. It also sheds
//   keys before their deadlines.
// * `sweep`: one visit to all shards.
// * `shards`: the state that the handles and the reaper share: the shards, and what a thread does before
//   it wakes the reaper.
// * `keys`: the operations on the keys of a shard.
// * `shard`: a table of keys and a wheel behind one lock, and the entries that a shed has overtaken.
// * `table`: the hash table of a shard.
// * `digest`: the part of a key's hash that the set stores.
//
// Each file states its own invariants.

mod builder;
mod digest;
mod keys;
#[cfg(all(test, tokio_wheel_util_loom))]
mod loom_tests;
mod reaper;
mod set;
mod shard;
mod shards;
mod sweep;
mod table;
#[cfg(all(test, not(tokio_wheel_util_loom)))]
mod tests;
mod touched;

pub use builder::Builder;
pub use reaper::Reaper;
pub use set::IdleSet;
pub use touched::Touched;

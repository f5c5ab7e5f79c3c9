//! A set of keys that expire when no task touches them in time.
//!
//! Servers use it to close connections that have been silent for too long, often instead of a ring of buckets that is
//! emptied once a second. Each key can have its own timeout, and deadlines are accurate to one millisecond.
//!
//! The connections share an [`IdleSet`], a handle that any number of tasks can clone and use:
//!
//! * [`touch`](IdleSet::touch) inserts a key, or postpones the key's deadline.
//! * [`touch_existing`](IdleSet::touch_existing) postpones the deadline of a key, and never inserts one.
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
//! A key is in the set at most once, however often tasks touch it. Until the reaper returns an expired key, a task can still
//! touch or remove it.
//!
//! A key's deadline is the time of its last touch plus its timeout, rounded up to a tick. [`reap`](Reaper::reap) never returns
//! a key before its deadline, but [`shed`](Reaper::shed) does. Both return keys in the order of their deadlines. Keys whose
//! deadlines are in the same tick come in any order.
//!
//! After the last handle is dropped, the reaper returns each remaining key when it expires, and then the stream ends. When
//! the reaper is dropped, the set is closed. A closed set is empty and stays empty.
//!
//! # A touch that comes too late
//!
//! Once the reaper has returned a key, `touch` inserts it again, and `touch_existing` returns [`Touched::Absent`]. So use
//! `touch` only when a connection begins, and `touch_existing` afterwards. Otherwise, data that arrives late can insert the
//! key of a closed connection again.
//!
//! # Overload
//!
//! When a server runs out of a resource, it can close the connections that have been silent the longest:
//! [`Reaper::shed`] removes and returns the key that is closest to its deadline, without waiting. Some insertions after a
//! shed cost more. The server in `examples/idle_reaper.rs` sheds when it is full.
//!
//! # Cost
//!
//! A touch hashes the key, reads the clock, takes a lock and looks up the key in a hash table. To postpone a deadline, it
//! then stores a single value. It wakes the reaper only if it sets the earliest deadline of the set.
//!
//! The keys are spread over [shards](Builder::shards), and each shard has its own lock, so tasks seldom contend for a lock. A
//! shard takes memory from the insertion of its first key: 6 KiB for its wheel, and 6 KiB for the wheel's first 256 entries.
//! So a set with five small keys takes up to 64 KiB, or 14 KiB with one shard.
//!
//! The memory of a shard grows and shrinks with the number of its keys. To resize its hash table, each operation on the shard
//! moves at most 64 keys to a new table, so both tables are in memory for a while. Tables are allocated and freed outside the
//! lock.
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

//! A set of keys that come out when they go untouched.
//!
//! Servers close connections that have been silent for too long. The classic way is a wheel of
//! buckets: a connection that is heard from moves to the newest bucket, and the oldest bucket is
//! emptied every second. This module does the same, with a timeout for each key and exact to a
//! millisecond.
//!
//! [`IdleSet`] is the side of the connections, a handle that any number of tasks may clone.
//! [`touch`](IdleSet::touch) inserts a key or puts its deadline off;
//! [`touch_existing`](IdleSet::touch_existing) only puts it off; [`remove`](IdleSet::remove) takes
//! the key out. [`Reaper`] is the other side, a stream of the keys that nobody touched in time.
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
//! | absent  | it is not              | `touch`, which inserts it                                   |
//! | waiting | its deadline is ahead  | removal, a shed, or its deadline, which a touch moves       |
//! | due     | its deadline is over   | removal, a shed, a touch, which makes it wait again, or the reaper, which returns it |
//!
//! A key is in the set once, however often it is touched. It leaves the set once for each time
//! that it was inserted: by a removal or through the reaper. A touch or a removal wins until the
//! reaper returns the key.
//!
//! Once the reaper has returned a key, `touch` inserts it again, and `touch_existing` returns
//! `false`. A connection that is closed when the reaper returns its key should therefore insert the
//! key with `touch` when it begins, and use `touch_existing` from then on: what is heard from the
//! peer at the last moment then leaves no key behind that nobody removes.
//!
//! A key's deadline is its last touch plus its timeout, rounded up to a tick. [Pressure](#overload) moves deadlines to
//! earlier ones. [`reap`](Reaper::reap) never returns a key before its deadline; [`shed`](Reaper::shed) does. Both return keys
//! in the order of their deadlines; within one tick, in any order. A key whose deadline is over when it is set comes out
//! next.
//!
//! When the last handle is dropped, the keys that are left come out when they are due, and then the
//! stream ends. When the reaper is dropped, the set is closed: it is empty and stays so.
//!
//! # Overload
//!
//! A server that runs short of something closes its most silent connections early, by one or both of these:
//!
//! * [`Reaper::shed`] hands out a number of keys now: those first that are nearest to their deadlines.
//! * [`IdleSet::set_pressure`] shortens all timeouts, by a share from 0 to 1 of what lies between them and
//!   [`Builder::min_timeout`]. The deadlines move at once and move back when the pressure falls.
//!
//! A key that is touched has its timeout again, or what the pressure leaves of it. A touch costs the same with and without
//! pressure, and after a shed. Only a key that is inserted with a deadline before the last one that was shed costs more: see
//! [`Reaper::shed`]. `examples/idle_reaper.rs` uses both when file descriptors run short.
//!
//! With a million keys that were last touched evenly over the last minute, in processor time (two cores, AMD EPYC;
//! `benches/examples/overload.rs`):
//!
//! | operation                                         | each key touched once | half of them again |
//! |---------------------------------------------------|-----------------------|--------------------|
//! | the first `shed(1000)`                            | 0.7 to 0.8 ms         | 1.5 to 1.9 ms      |
//! | `shed(1000)` again and again, median              | 0.3 to 0.4 ms         | 0.6 to 0.8 ms      |
//! | the longest of these, which comes to a coarse slot | 5 to 10 ms           | 7 to 8 ms          |
//! | `set_pressure`, from 0 to 0.5                     | 2 µs                  | 2 µs               |
//! | the reaper then, for each key that is due         | 0.4 µs                | 0.7 to 0.9 µs      |
//!
//! If all keys were touched again, the first key that is shed costs 0.4 s, in which the shed gives way 1,558 times. After
//! that, a server that inserts a key with a short timeout, gives it the usual one and sheds another key spends 1.4 µs.
//!
//! # What it costs
//!
//! A touch costs a hash, a look at the clock, an uncontended lock and a look-up in a hash table;
//! putting a deadline off is one store. Touches write to nothing that all shards share, except to
//! wake the reaper when a deadline comes before all that it waits for.
//!
//! The keys are spread over shards with a lock each, so that tasks seldom meet at one. A set begins with one shard and
//! takes 14 KiB with five small keys: 6 KiB for a wheel, and 6 KiB for its first 256 entries. A shard splits when
//! it has 112 keys, or when threads often meet at its lock. By default there are at most four shards for each
//! processor; see [`Builder::shards`]. A split moves at most 112 keys. The lock is held for 6 µs in the mean.
//!
//! A shard's memory grows with the number of its keys and is freed as they go. When its table grows
//! or shrinks, the keys move to another one, at most 64 of them in each operation on the shard, and
//! until all have moved both tables are in memory. With a million keys in one shard or in 8, no lock
//! was held for longer than 20 µs of processor time, whether keys came, went or did both. A table is
//! allocated and freed without the lock, by the operation that needs it: with 125,000 keys in a
//! shard, this one takes 0.6 ms longer to allocate, and 1.4 ms to free.
//
// # How it works
//
// `set`: the handle. It hashes the key, reads the clock and goes to one `shard`, where the keys
// are. `reaper`: the stream. It goes to the shards one after the other, a `round` for each tick. `shed`: the same ahead
// of time. `behind`: the entries that a shed has overtaken. `pace`: how far the wheels run ahead of the clock (the *lead*), and what pressure takes from a deadline.
// `digest`: which keys a shard has. `shards`: how shards split, how the shard of a key is found, and how to go over all
// shards. `core`: what handles and the reaper share, and how a touch wakes the reaper. `table`: where a shard
// has its keys. Each file states its own invariants.

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

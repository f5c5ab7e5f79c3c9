//! Counts the requests in flight of a connection, and stores when the last request ended.
//!
//! One atomic word holds the count and the time. So a thread that reads a count of 0 also reads the time at
//! which the count fell to 0. With two words, a thread could read the count of 0 together with an older time.
//! The thread would then close the connection too early.
//!
//! Each connection has a word of its own. So the requests of different connections never write to the same
//! word.
//!
//! A request increments and decrements the word once. It also increments and decrements a reference count of
//! its connection once. If no other request is in flight when the request ends, the request also reads the
//! clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// The number of bits for the count. 24 bits can count 16 million requests in flight, which is more than
/// memory allows.
const COUNT_BITS: u32 = 24;
/// A mask with the bits of the count.
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Requests {
    /// The instant at which the connection was opened.
    opened: Instant,
    /// The low bits count the requests in flight. The high bits hold the time from `opened` to the end of the
    /// last request. This time is in milliseconds, rounded up. The high bits can represent 34 years.
    word: AtomicU64,
}

impl Requests {
    /// Creates the state of a connection that opens now and has no requests.
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            word: AtomicU64::new(0),
        }
    }

    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// Returns whether a request is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.word.load(Ordering::Acquire) & COUNT > 0
    }

    /// Returns how many requests are in flight, and when the last request ended.
    pub(super) fn in_flight(&self) -> (usize, Instant) {
        let word = self.word.load(Ordering::Acquire);
        let ended = Duration::from_millis(word >> COUNT_BITS);
        ((word & COUNT) as usize, self.opened + ended)
    }

    /// Subtracts a request from the count. If the count becomes 0, the method also stores the current time.
    fn end(&self) {
        let end_one = |word: u64| {
            if word & COUNT > 1 {
                return Some(word - 1);
            }
            let millis = self.opened.elapsed().as_nanos().div_ceil(1_000_000) as u64;
            Some(millis << COUNT_BITS)
        };
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.word.fetch_update(success, failure, end_one);
    }
}

/// A guard that counts a request until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Requests>);

impl InFlight {
    /// Adds a request to the count and returns its guard.
    pub(super) fn begin(requests: &Arc<Requests>) -> Self {
        requests.word.fetch_add(1, Ordering::AcqRel);
        Self(requests.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_end_counts() {
        let requests = Arc::new(Requests::new());
        let opened = requests.opened();
        let second = Duration::from_secs(1);
        assert_eq!(requests.in_flight(), (0, opened));
        let first = InFlight::begin(&requests);
        tokio::time::advance(second).await;
        let other = InFlight::begin(&requests);
        assert_eq!(requests.in_flight(), (2, opened));
        drop(first);
        assert_eq!(requests.in_flight(), (1, opened));
        tokio::time::advance(second).await;
        drop(other);
        assert_eq!(requests.in_flight(), (0, opened + 2 * second));
        tokio::time::advance(second + Duration::from_micros(1)).await;
        drop(InFlight::begin(&requests));
        let (count, ended) = requests.in_flight();
        assert_eq!(count, 0);
        assert_eq!(
            ended,
            opened + 3 * second + Duration::from_millis(1),
            "the end must round up, so that no limit is early"
        );
    }

    #[test]
    fn what_threads_count_at_once_adds_up() {
        let requests = Arc::new(Requests::new());
        let held = InFlight::begin(&requests);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..20_000).for_each(|_| drop(InFlight::begin(&requests))));
            }
        });
        assert_eq!(requests.in_flight(), (1, requests.opened()));
        let before = Instant::now();
        drop(held);
        let (count, ended) = requests.in_flight();
        assert!(count == 0 && ended >= before);
    }
}

//! The behavior of each method.

use super::*;

/// `touch` clones a key only to insert it. The set keeps the key that was inserted first.
#[tokio::test(start_paused = true)]
async fn a_key_is_cloned_once() {
    let (set, mut reaper) = IdleSet::new(secs(1));
    let token = Arc::new(7);
    for _ in 0..10 {
        set.touch(&token);
        set.touch_with_timeout(&token, secs(2));
        assert!(set.contains(&token));
    }
    assert_eq!(Arc::strong_count(&token), 2);
    assert_eq!(set.touch(&Arc::new(7)), Present);
    assert!(Arc::ptr_eq(&reaper.reap().await.unwrap(), &token));
    assert_eq!(Arc::strong_count(&token), 1);
}

/// Gives all keys the same hash, so that the set must compare them.
#[derive(Clone, Copy, Default)]
struct SameHash;

impl std::hash::BuildHasher for SameHash {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

impl std::hash::Hasher for SameHash {
    fn write(&mut self, _bytes: &[u8]) {}

    fn finish(&self) -> u64 {
        7
    }
}

#[tokio::test(start_paused = true)]
async fn unequal_keys_may_have_equal_hashes() {
    let builder = IdleSet::builder(secs(1)).hasher(SameHash);
    let (set, reaper) = builder.build();
    for key in (0..500).rev() {
        assert_eq!(set.touch_with_timeout(&key, ms(key)), Inserted);
    }
    for key in (0..500).step_by(2) {
        assert_eq!(set.touch(&key), Present);
        assert_eq!(set.remove(&key), Some(key));
    }
    drop(set);
    let odd: Vec<_> = reaper.collect().await;
    assert!(odd.iter().copied().eq((1..500).step_by(2)), "{odd:?}");
}

#[test]
fn a_number_of_shards_out_of_range_panics() {
    for given in [0, 1_025, usize::MAX] {
        let text = format!("shards must be between 1 and 1024, got {given}");
        assert_panics(|| IdleSet::<u32>::builder(secs(1)).shards(given), &[&text]);
        // One word for one mistake: the builder of a timer says the same.
        let of_a_timer = Timer::builder().shards(given).build().unwrap_err();
        assert_eq!(of_a_timer.to_string(), text);
    }
    for given in [1, 1_024] {
        let _set = IdleSet::<u32>::builder(secs(1)).shards(given).build();
    }
}

/// If a poll outside a runtime must wait, it panics with a message that names the remedy.
#[test]
fn a_poll_outside_of_a_runtime_names_the_remedy() {
    let (set, mut reaper) = IdleSet::new(secs(3_600));
    set.touch(&1);
    let poll = || reaper.poll_reap(&mut Context::from_waker(Waker::noop()));
    assert_panics(poll, &["polled outside of a tokio runtime"]);
}

/// The timer's clock is paused and jumps. The clock of the polling thread is not paused.
#[test]
fn an_alarm_counts_that_goes_by_another_clock() {
    let runtime = paused();
    let timer = runtime.block_on(async { Timer::current() });
    let (set, mut reaper) = IdleSet::with_timer(secs(1_000), &timer);
    let (wakes, waker) = Wakes::new();
    set.touch(&1);
    // Before the deadline, the reaper may wait for one slot of each level.
    for leaps in 1..=6 {
        if let Poll::Ready(reaped) = poll(&mut reaper, &waker) {
            return assert_eq!(reaped, Some(1));
        }
        runtime.block_on(advance(secs(2_000)));
        assert_eq!(wakes.count(), leaps);
    }
    panic!("the reaper ignores its alarm");
}

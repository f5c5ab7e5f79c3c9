//! Tests on real threads, which count events for each key.

use std::thread;

use super::*;

/// The number of events for each key.
struct Counts<const KEYS: usize>([AtomicUsize; KEYS]);

impl<const KEYS: usize> Counts<KEYS> {
    fn new() -> Arc<Self> {
        Arc::new(Self([const { AtomicUsize::new(0) }; KEYS]))
    }

    fn count(&self, key: u64) {
        self.0[key as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> Vec<usize> {
        self.0.iter().map(|n| n.load(Ordering::Relaxed)).collect()
    }
}

/// For each insertion there is exactly one removal or one key from the reaper.
#[test]
fn each_insertion_comes_out_exactly_once() {
    const KEYS: usize = 1_000;
    does_not_hang(|| {
        for shards in [1, 64] {
            let runtime = multi_thread(2);
            let builder = IdleSet::builder(ms(1)).shards(shards);
            let (set, mut reaper) = builder.build().unwrap();
            let (inserted, removed, reaped) = (
                Counts::<KEYS>::new(),
                Counts::<KEYS>::new(),
                Counts::<KEYS>::new(),
            );
            let reaps = runtime.spawn({
                let reaped = reaped.clone();
                async move {
                    while let Some(key) = reaper.reap().await {
                        reaped.count(key);
                    }
                }
            });
            let threads = [0, 1, 2].map(|seed| {
                let (set, inserted, removed) = (set.clone(), inserted.clone(), removed.clone());
                thread::spawn(move || {
                    let mut random = Random(seed);
                    for _ in 0..100_000 {
                        let key = random.below(KEYS as u64);
                        match random.below(8) {
                            0 if set.remove(&key).is_some() => removed.count(key),
                            0 => {}
                            1 => {
                                let timeout = Duration::from_micros(random.below(3_000));
                                if set.touch_with_timeout(&key, timeout) == Inserted {
                                    inserted.count(key);
                                }
                            }
                            // This touch does not insert a key that the reaper has just returned.
                            2 => assert_ne!(set.touch_existing(&key), Inserted),
                            _ if set.touch(&key) == Inserted => inserted.count(key),
                            _ => {}
                        }
                    }
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
            drop(set);
            runtime.block_on(reaps).unwrap();
            let out = removed.get().into_iter().zip(reaped.get());
            let out: Vec<_> = out.map(|(removed, reaped)| removed + reaped).collect();
            assert_eq!(inserted.get(), out);
            assert!(reaped.get().iter().sum::<usize>() > 0);
            assert!(removed.get().iter().sum::<usize>() > 0);
        }
    });
}

/// One thread touches a key all the time, except in pauses. Some pauses are longer than the
/// timeout. The key expires only in such a pause.
#[test]
fn no_key_comes_out_that_is_touched_in_time() {
    const TIMEOUT: Duration = ms(5);
    does_not_hang(|| {
        let runtime = multi_thread(1);
        let (set, mut reaper) = IdleSet::new(TIMEOUT);
        let touching = thread::spawn(move || {
            let mut random = Random(11);
            let start = Instant::now();
            set.touch(&1);
            let (mut last, mut inserted) = (start, 0);
            // The loop ends after the key has expired several times.
            while inserted < 8 || start.elapsed() < ms(200) {
                match random.below(2_000) {
                    0 => thread::sleep(Duration::from_micros(random.below(10_000))),
                    _ => thread::yield_now(),
                }
                let before = last;
                last = Instant::now();
                if set.touch(&1) == Inserted {
                    inserted += 1;
                    // The pause counts from the start of the last touch, so it is not too short.
                    let pause = before.elapsed();
                    assert!(pause >= TIMEOUT, "the key expired after {pause:?}");
                }
            }
            inserted
        });
        let reaped = runtime.block_on(async {
            let mut reaped = 0;
            while reaper.reap().await.is_some() {
                reaped += 1;
            }
            reaped
        });
        let inserted = touching.join().unwrap();
        assert!(inserted > 0);
        assert_eq!(reaped, inserted + 1);
    });
}

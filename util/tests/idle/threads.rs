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

//! Tests on real threads, which count events for each key.

use std::{sync::Mutex, thread};

use super::*;

const KEYS: u64 = 1_000;

type Counts = Mutex<[usize; KEYS as usize]>;

fn count(counts: &Counts, key: u64) {
    counts.lock().unwrap()[key as usize] += 1;
}

/// For each insertion there is exactly one removal or one key from the reaper.
#[test]
fn each_insertion_comes_out_exactly_once() {
    does_not_hang(|| {
        for shards in [1, 64] {
            let runtime = multi_thread(2);
            let builder = IdleSet::builder(ms(1)).shards(shards);
            let (set, mut reaper) = builder.build();
            let counts = || Arc::new(Counts::new([0; KEYS as usize]));
            let (inserted, removed, reaped) = (counts(), counts(), counts());
            let by_reaper = reaped.clone();
            let reaps = runtime.spawn(async move {
                while let Some(key) = reaper.reap().await {
                    count(&by_reaper, key);
                }
            });
            let work = |mut random: Random| {
                for _ in 0..100_000 {
                    let key = random.below(KEYS);
                    let short = Duration::from_micros(random.below(3_000));
                    match random.below(8) {
                        0 if set.remove(&key).is_some() => count(&removed, key),
                        0 => {}
                        // This touch does not insert a key that the reaper has just returned.
                        1 => assert_ne!(set.touch_existing(&key), Inserted),
                        2 if set.touch_with_timeout(&key, short) == Inserted => {
                            count(&inserted, key);
                        }
                        3.. if set.touch(&key) == Inserted => count(&inserted, key),
                        _ => {}
                    }
                }
            };
            thread::scope(|scope| {
                for seed in 0..3 {
                    scope.spawn(move || work(Random(seed)));
                }
            });
            drop(set);
            runtime.block_on(reaps).unwrap();
            let [inserted, removed, reaped] =
                [inserted, removed, reaped].map(|counts| *counts.lock().unwrap());
            let out: Vec<_> = removed.iter().zip(reaped).map(|(a, b)| a + b).collect();
            assert_eq!(inserted[..], out);
            assert!(removed != [0; KEYS as usize] && removed != inserted);
        }
    });
}

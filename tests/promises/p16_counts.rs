//! Promise 16, counts are what happened.

use super::*;

/// Blocks a worker until the watch has counted the block. The other worker may wait for events by chance, so that the block
/// stops nobody. Then the function returns without a count.
fn block() {
    let timer = Timer::current();
    let (before, start) = (timer.metrics().blocks(), Instant::now());
    while timer.metrics().blocks() == before && start.elapsed() < ms(200) {
        thread::sleep(ms(1));
    }
    // A block counts once, however long it lasts.
    thread::sleep(ms(30));
    let metrics = timer.metrics();
    assert!(
        metrics.blocks() <= before + 1,
        "{} blocks",
        metrics.blocks()
    );
}

#[test]
fn a_block_counts_once_and_is_no_longer_than_it_was() {
    does_not_hang(|| {
        multi_thread(2).block_on(async {
            let timer = Timer::current();
            assert!(timer.metrics().is_watched());
            let mut longest = ms(0);
            while timer.metrics().blocks() < 5 {
                let start = Instant::now();
                let blocking = tokio::spawn(async {
                    sleep(ms(1)).await;
                    block()
                });
                blocking.await.unwrap();
                longest = longest.max(start.elapsed());
                // A worker that handles events does not block.
                sleep(ms(30)).await;
            }
            let metrics = timer.metrics();
            assert!(metrics.longest_block() >= ms(10));
            assert!(metrics.longest_block() <= longest, "{metrics:?}");
        });
    });
}

#[test]
fn a_timer_says_whether_it_is_watched() {
    let is_watched = || Timer::current().metrics().is_watched();
    assert!(multi_thread(2).block_on(async { is_watched() }));
    assert!(!multi_thread(1).block_on(async { is_watched() }));
    assert!(!current_thread().block_on(async { is_watched() }));
    multi_thread(2).block_on(async {
        let off = Timer::builder().watch(None).install().unwrap();
        assert!(!off.metrics().is_watched() && !is_watched());
        for given in [ms(0), secs(2)] {
            let error = Timer::builder().watch(given).build().unwrap_err();
            let expected =
                format!("the watch's period must be between 1ms and 1s, or `None`, got {given:?}");
            assert_eq!(error.to_string(), expected);
        }
    });
}

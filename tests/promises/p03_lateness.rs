//! "**Lateness** is at most one tick plus one driver wake-up. Choose the default so that it is
//! not later than `tokio::time`."

use super::*;

/// When `wait` ends that starts now, for each of the two.
async fn ends(wait: Duration) -> (Instant, Instant) {
    let (ours, theirs) = (sleep(wait), tokio::time::sleep(wait));
    tokio::join!(
        async {
            ours.await;
            Instant::now()
        },
        async {
            theirs.await;
            Instant::now()
        },
    )
}

/// The paused clock moves in milliseconds, as tokio's alarm does, and ours must not
/// arrive at a later one: wherever within a millisecond the timer's origin lies, if the tick divides that.
#[test]
fn the_default_tick_is_not_later_than_tokio() {
    for origin in [0, 15_625, 250_000, 500_000, 984_375] {
        paused().block_on(async {
            tokio::time::advance(Duration::from_nanos(origin)).await;
            for n in 0..500_u64 {
                let (ours, theirs) = ends(Duration::from_nanos(n * 37_511)).await;
                assert!(
                    ours <= theirs,
                    "{n}, from {origin} ns: {:?} later",
                    ours - theirs
                );
            }
        });
    }
}

/// Where the tick does not divide the origin, a deadline may round past the millisecond.
#[test]
fn the_default_tick_is_at_most_one_wake_up_later_than_tokio() {
    for origin in [1, 300, 7_812, 333_333, 999_999] {
        paused().block_on(async {
            tokio::time::advance(Duration::from_nanos(origin)).await;
            for n in 0..500_u64 {
                let (ours, theirs) = ends(Duration::from_nanos(n * 37_511)).await;
                assert!(ours <= theirs + ms(1), "{:?} later", ours - theirs);
            }
        });
    }
}

#[test]
fn a_coarse_tick_is_late_by_less_than_itself_and_a_wake_up() {
    paused().block_on(async {
        let tick = ms(50);
        let timer = Timer::builder().tick(tick).build().unwrap();
        for n in 1..200 {
            let deadline = Instant::now() + ms(n);
            timer.sleep_until(deadline).await;
            assert!(deadline.elapsed() < tick + ms(1));
        }
    });
}

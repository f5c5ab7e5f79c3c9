//! Promise 12, the paused clock: everything works under a paused clock that advances by itself.

use super::*;

#[tokio::test(start_paused = true)]
async fn advance_has_woken_what_is_due_when_it_returns() {
    // The default tick, and a millisecond.
    for unit in [Duration::from_nanos(15_625), ms(1)] {
        let (wakes, waker) = Wakes::new();
        let sleeps = (1..=2_000).map(|n| registered(sleep(n * unit), &waker));
        let _sleeps: Vec<_> = sleeps.collect();
        for n in 1..=20 {
            advance(100 * unit).await;
            assert_eq!(wakes.count(), n * 100);
        }
    }
}

/// A test or simulation may sleep very often. Neither fractions of a millisecond nor coarse slots cost more wake-ups.
#[tokio::test(start_paused = true)]
async fn each_sleep_wakes_the_driver_once() {
    let wakeups = || Timer::current().metrics().driver_wakeups();
    sleep(ms(1)).await;
    let before = wakeups();
    for n in 1..=200 {
        sleep(n * Duration::from_nanos(7_919_333)).await;
    }
    assert_eq!(wakeups() - before, 200);
}

/// The names of sleeps, in the order in which the sleeps wake.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<usize>>>);

impl Order {
    fn register(&self, name: usize, sleep: Sleep) -> Sleep {
        let order = self.clone();
        let hook = Hook::on_wake(move || order.0.lock().unwrap().push(name));
        registered(sleep, &hook.waker())
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// An advance over many deadlines fires them in the order of their ticks.
#[tokio::test(start_paused = true)]
async fn a_leap_fires_in_order() {
    let order = Order::default();
    let due = (0..2_000).map(|n| n * 7_919 % 2_000);
    let sleeps = due.map(|n| order.register(n, sleep(ms(1 + n as u64))));
    let _sleeps: Vec<_> = sleeps.collect();
    advance(secs(2)).await;
    assert!(order.take().into_iter().eq(0..2_000));
}

/// Centuries and millennia, as on tokio.
#[test]
fn a_paused_clock_may_go_far() {
    const YEAR: Duration = secs(365 * 86_400);
    does_not_hang(|| {
        paused().block_on(async {
            let start = Instant::now();
            for _ in 0..20 {
                sleep(Duration::MAX).await;
            }
            let mut reset = sleep(ms(5));
            Pin::new(&mut reset).reset_after(Duration::MAX);
            reset.await;
            let mut sleeps = 21;
            for years in [293, 100_000] {
                advance(years * YEAR).await;
                sleep(ms(1)).await;
                let soon = sleep(ms(5));
                sleep(years * YEAR).await;
                soon.await;
                sleeps += 2 * years;
                let years = start.elapsed().as_secs() / YEAR.as_secs();
                assert!(years >= sleeps as u64, "{years}");
            }
        });
    });
}

#[test]
fn pause_and_resume_reach_the_wheel() {
    does_not_hang(|| {
        current_thread().block_on(async {
            let start = Instant::now();
            sleep(ms(1)).await;
            tokio_wheel::pause();
            sleep(secs(3_600)).await;
            assert!(start.elapsed() >= secs(3_600));
            tokio_wheel::resume();
            let resumed = std::time::Instant::now();
            sleep(ms(5)).await;
            assert!(resumed.elapsed() >= ms(5));
            tokio_wheel::pause();
            let paused = Instant::now();
            advance(secs(5)).await;
            assert_eq!(paused.elapsed(), secs(5));
        });
    });
}

/// Sleeps of one deadline that were set one after the other wake in the order in which they were set.
#[tokio::test(start_paused = true)]
async fn sleeps_of_one_deadline_wake_in_the_order_in_which_they_were_set() {
    const MANY: usize = 1_000;
    for wait in [ms(5), ms(100), secs(10), secs(600)] {
        let deadline = Instant::now() + wait;
        let order = Order::default();
        let mut sleeps = Vec::new();
        for n in 0..MANY {
            sleeps.push(order.register(n, sleep_until(deadline)));
            advance(wait / 2 / MANY as u32).await;
        }
        sleep_until(deadline + ms(1)).await;
        let order = order.take();
        assert!(order.iter().copied().eq(0..MANY), "of {wait:?}: {order:?}");
    }
}

/// Wherever within a millisecond the clock was paused.
#[test]
fn deadlines_a_millisecond_apart_do_not_fire_together() {
    for n in 0..20 {
        let ends_first = current_thread().block_on(async {
            thread::sleep(Duration::from_micros(n * 53));
            tokio_wheel::pause();
            timeout(ms(99), sleep(ms(100))).await.is_err()
        });
        assert!(
            ends_first,
            "the clock was paused {n} x 53 µs after the start of the runtime"
        );
    }
}

/// 40,000 other sleeps are due in the same instant, so the driver has not fired this one yet.
#[tokio::test(start_paused = true)]
async fn a_reset_to_now_is_ready_although_the_driver_is_late() {
    let deadline = Instant::now() + ms(10);
    let late = Arc::new(Mutex::new(sleep_until(deadline)));
    let its = late.clone();
    let first = tokio::spawn(async move {
        sleep_until(deadline).await;
        let mut late = its.lock().unwrap();
        assert!(!late.is_elapsed(), "the driver has more to do");
        Pin::new(&mut *late).reset(Instant::now());
        poll(&mut *late, Waker::noop()).is_ready()
    });
    yield_now().await;
    let sleeps = (0..40_000).map(|_| registered(sleep_until(deadline), Waker::noop()));
    let _sleeps: Vec<_> = sleeps.collect();
    assert!(poll(&mut *late.lock().unwrap(), Waker::noop()).is_pending());
    assert!(first.await.unwrap());
}

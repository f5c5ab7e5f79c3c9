//! The errors of scheduled tasks: their reasons, messages and contents.

use std::fmt::Write;

use super::*;
use crate::support::panics::assert_panics;

fn reason<F>(error: &ScheduleError<F>) -> [bool; 2] {
    [error.is_full(), error.is_shutdown()]
}

fn cause(error: &TaskError) -> [bool; 3] {
    [error.is_cancelled(), error.is_shutdown(), error.is_panic()]
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_the_shutdown_carries_the_future_back() {
    // A shutdown comes before the limit.
    for scheduler in [Scheduler::new(), limited(1)] {
        drop(scheduler.schedule(secs(1), async {}).unwrap());
        drop(scheduler.shutdown());
        let refused = scheduler.schedule(secs(1), async { 7 }).unwrap_err();
        assert_eq!(reason(&refused), [false, true]);
        assert_message(&refused, &["has shut down"]);
        assert_eq!(refused.into_inner().await, 7);

        let refused = scheduler
            .schedule_at(Instant::now(), async { 8 })
            .unwrap_err();
        assert_eq!(refused.into_inner().await, 8);

        let refused = scheduler.schedule_at_fixed_rate(secs(1), secs(1), || async {});
        let refused = refused.unwrap_err();
        assert_eq!(reason(&refused), [false, true]);
        (refused.into_inner())().await;
        let refused = scheduler.schedule_with_fixed_delay(secs(1), secs(1), || async {});
        (refused.unwrap_err().into_inner())().await;
    }
}

#[test]
fn mistakes_panic_in_the_callers_frame() {
    let none = ["max_pending must be at least 1, got 0"];
    assert_panics(|| Scheduler::builder().max_pending(0), &none);
    assert_panics(|| Scheduler::new(), &["outside of a tokio runtime"]);
    paused().block_on(async {
        let scheduler = limited(1);
        let (zero, run) = (Duration::ZERO, || async {});
        let period = &["`period` must be non-zero"];
        let delay = &["`delay` must be non-zero"];
        assert_panics(|| scheduler.schedule_at_fixed_rate(zero, zero, run), period);
        let with =
            || scheduler.schedule_at_fixed_rate_with(MissedTickBehavior::Skip, zero, zero, run);
        assert_panics(with, period);
        let fixed_delay = || scheduler.schedule_with_fixed_delay(zero, zero, run);
        assert_panics(fixed_delay, delay);
        assert_eq!(limit::room(&scheduler), 1);
    });
}

#[tokio::test(start_paused = true)]
async fn an_end_without_output_tells_why() {
    let scheduler = Scheduler::new();
    let task = scheduler.schedule(secs(1), async {}).unwrap();
    task.cancel();
    let error = result(task).await.unwrap_err();
    assert_eq!(cause(&error), [true, false, false]);
    assert_message(&error, &["the task was canceled"]);
    let error = error.try_into_panic().unwrap_err();
    assert!(error.is_cancelled(), "it is returned");
    let expected = ["the task did not panic", "the task was canceled"];
    assert_panics(|| error.into_panic(), &expected);

    let panics = |run: fn()| {
        let task = scheduler.schedule(ms(1), async move { run() });
        result(task.unwrap())
    };
    let error = panics(|| panic!("of {}", std::hint::black_box(7)));
    let error = error.await.unwrap_err();
    assert_eq!(cause(&error), [false, false, true]);
    assert_eq!(error.to_string(), "the task panicked: of 7");
    assert_eq!(format!("{error:?}"), "TaskError(the task panicked: of 7)");
    let payload = error.try_into_panic().unwrap();
    assert_eq!(payload.downcast_ref::<String>().unwrap(), "of 7");

    let error = panics(|| panic!("plainly")).await.unwrap_err();
    assert_eq!(error.to_string(), "the task panicked: plainly");
    let error = panics(|| resume_unwind(Box::new(7))).await.unwrap_err();
    assert_eq!(error.to_string(), "the task panicked");
    assert_eq!(error.into_panic().downcast_ref(), Some(&7));

    let task = scheduler.schedule(secs(1), async {}).unwrap();
    drop(scheduler.shutdown());
    let error = result(task).await.unwrap_err();
    assert_eq!(cause(&error), [false, true, false]);
    assert_message(&error, &["the scheduler shut down before the task ended"]);
}

/// A formatter may display the error again, because no lock is held while it writes.
#[tokio::test(start_paused = true)]
async fn an_error_may_be_displayed_while_it_is_displayed() {
    struct Twice<'a>(&'a TaskError, String);
    impl Write for Twice<'_> {
        fn write_str(&mut self, part: &str) -> std::fmt::Result {
            write!(self.1, "{part}{}", self.0)
        }
    }
    let task = Scheduler::new()
        .schedule(ms(1), async { panic!("oh") })
        .unwrap();
    let error = result(task).await.unwrap_err();
    let written = does_not_hang(move || {
        let mut twice = Twice(&error, String::new());
        write!(twice, "{error}").unwrap();
        twice.1
    });
    let once = "the task panicked: oh";
    assert!(written.contains(once) && written.len() >= 2 * once.len());
}

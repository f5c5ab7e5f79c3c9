//! The housekeeping of a small server. Tasks run once, at a fixed rate or with a fixed delay, and one
//! is canceled.
//!
//! ```text
//! cargo run -p tokio-wheel-util --features schedule --example scheduler
//! ```
//!
//! A scheduled task is an entry of a timing wheel until its deadline. Then it runs as a tokio task, so
//! it can await other futures.
//!
//! The example sets a limit, and shuts the scheduler down. A program that needs no limit calls `Scheduler::new()`.

use std::{
    error::Error,
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use tokio::task::JoinSet;
use tokio_wheel::{Duration, Instant, sleep, sleep_until};
use tokio_wheel_util::schedule::Scheduler;

/// At the end, the example runs waiting tasks with a deadline within this time, and drops the others.
const GRACE: Duration = Duration::from_secs(60);

/// The result of the example.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// The events, with their times in milliseconds since the start.
    pub(crate) events: Vec<(u128, &'static str)>,
    /// The output of the poller.
    pub(crate) polls: u32,
    /// The names of the tasks that were waiting at the end.
    pub(crate) left: Vec<&'static str>,
}

/// Records events. All clones write to one journal.
#[derive(Clone)]
struct Journal {
    start: Instant,
    events: Arc<Mutex<Vec<(u128, &'static str)>>>,
}

impl Journal {
    fn note(&self, what: &'static str) {
        let now = self.start.elapsed().as_millis();
        println!("{now:>5} ms  {what}");
        self.events.lock().unwrap().push((now, what));
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Schedules tasks, cancels some, and shuts the scheduler down.
pub(crate) async fn run() -> Result<Report, Box<dyn Error>> {
    let journal = Journal {
        start: Instant::now(),
        events: Arc::default(),
    };
    let at = |millis| sleep_until(journal.start + ms(millis));
    let later = |what| {
        let journal = journal.clone();
        async move { journal.note(what) }
    };
    // The limit keeps a flood of tasks from using all memory.
    let scheduler = Scheduler::builder().max_pending(1_000_000).build();

    // This task runs once. Its handle returns its output.
    let warm = scheduler.schedule(ms(120), later("the cache is warm"))?;

    // This task would run once, but the answer arrives first and cancels it.
    let give_up = scheduler.schedule(ms(500), later("the request is given up"))?;

    // This task runs every 200 ms. Its third run takes 500 ms. The two missed runs follow at once, and
    // the next run is on time again.
    let beat = {
        let (journal, mut beats) = (journal.clone(), 0);
        scheduler.schedule_at_fixed_rate(Duration::ZERO, ms(200), move || {
            beats += 1;
            journal.note(if beats == 3 { "a slow beat" } else { "a beat" });
            sleep(if beats == 3 { ms(500) } else { ms(0) })
        })?
    };

    // This task takes 100 ms and pauses for 200 ms after each run, until a run returns `Break`.
    let poller = {
        let (journal, mut polls) = (journal.clone(), 0);
        scheduler.schedule_with_fixed_delay(ms(50), ms(200), move || {
            polls += 1;
            let (journal, polls) = (journal.clone(), polls);
            async move {
                journal.note("a poll begins");
                sleep(ms(100)).await;
                match polls {
                    1..4 => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(polls),
                }
            }
        })?
    };

    // These tasks still wait when the scheduler shuts down.
    let for_later = [
        (
            "the state is saved",
            scheduler.schedule(ms(30_000), later("the state is saved"))?,
        ),
        (
            "the figures are sent",
            scheduler.schedule(ms(3_600_000), later("the figures are sent"))?,
        ),
    ];

    warm.await?;
    at(300).await;
    journal.note("an answer: the request is not given up");
    assert!(give_up.cancel(), "the task has not started");
    let polls = poller.await?;
    journal.note("the poller has ended");
    at(1_300).await;
    journal.note("no more beats");
    assert!(beat.cancel(), "the task has not ended");

    at(1_500).await;
    journal.note("shutdown");
    // The returned tasks run when they are polled. Here they run at once and concurrently.
    let mut last = JoinSet::new();
    for task in scheduler.shutdown() {
        if task.deadline() <= Instant::now() + GRACE {
            last.spawn(task);
        }
    }
    last.join_all().await;
    let mut left = Vec::new();
    for (name, task) in for_later {
        if task.await.is_err_and(|error| error.is_shutdown()) {
            left.push(name);
        }
    }
    println!("left when the timer shut down: {}", left.join(", "));

    let events = std::mem::take(&mut *journal.events.lock().unwrap());
    Ok(Report {
        events,
        polls,
        left,
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let report = run().await?;
    assert_eq!(report.polls, 4);
    Ok(())
}

//! The housekeeping of a small server: tasks that run later, at a fixed rate, with a fixed delay, or
//! not at all.
//!
//! ```text
//! cargo run --example scheduler
//! ```
//!
//! Until it is due, a scheduled task is an entry in a timing wheel. When it is due it runs as a tokio
//! task, so it may wait for whatever it likes.

use std::{
    ops::ControlFlow,
    process::ExitCode,
    sync::{Arc, Mutex},
};

use clap::Parser;
use tokio::task::JoinSet;
use tokio_wheel::{Duration, Instant, Timer, sleep, sleep_until};

/// Tasks that the end finds waiting are run if they are due within this, and dropped otherwise.
const GRACE: Duration = Duration::from_secs(60);

/// What happened.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// In milliseconds since the start.
    pub(crate) events: Vec<(u128, &'static str)>,
    /// What the poller returned.
    pub(crate) polls: u32,
    /// The tasks that the end found waiting.
    pub(crate) left: Vec<&'static str>,
}

/// Writes down what happens. Clones write to the same journal.
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

/// Schedules, cancels, and shuts down.
pub(crate) async fn run() -> Result<Report, Box<dyn std::error::Error>> {
    let journal = Journal {
        start: Instant::now(),
        events: Arc::default(),
    };
    let at = |millis| sleep_until(journal.start + ms(millis));
    let later = |what| {
        let journal = journal.clone();
        async move { journal.note(what) }
    };
    // One that takes more than a million tasks would rather refuse than run out of memory.
    let timer = Timer::builder().max_pending(1_000_000).build()?;

    // Once. The handle gives what the task returns.
    let warm = timer.schedule(ms(120), later("the cache is warm"))?;

    // Once, unless it is cancelled: an answer comes before the request is given up.
    let give_up = timer.schedule(ms(500), later("the request is given up"))?;

    // Every 200 ms, whatever a run takes. The third takes 500 ms: the two that are missed
    // meanwhile are made up for at once, and the next is on time again.
    let beat = {
        let (journal, mut beats) = (journal.clone(), 0);
        timer.schedule_at_fixed_rate(Duration::ZERO, ms(200), move || {
            beats += 1;
            journal.note(if beats == 3 { "a slow beat" } else { "a beat" });
            sleep(if beats == 3 { ms(500) } else { ms(0) })
        })?
    };

    // 200 ms of rest after each run of 100 ms, until one says that it was the last.
    let poller = {
        let (journal, mut polls) = (journal.clone(), 0);
        timer.schedule_with_fixed_delay(ms(50), ms(200), move || {
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

    // Not due before the end.
    let for_later = [
        (
            "the state is saved",
            timer.schedule(ms(30_000), later("the state is saved"))?,
        ),
        (
            "the figures are sent",
            timer.schedule(ms(3_600_000), later("the figures are sent"))?,
        ),
    ];

    warm.await?;
    at(300).await;
    journal.note("an answer: the request is not to be given up");
    assert!(give_up.cancel(), "it is not due yet");
    let polls = poller.await?;
    journal.note("the poller has ended");
    at(1_300).await;
    journal.note("no more beats");
    assert!(beat.cancel(), "it goes on until then");

    at(1_500).await;
    journal.note("shutdown");
    // Without a timer they run when somebody awaits them: here, at once and side by side.
    let mut last = JoinSet::new();
    for task in timer.shutdown() {
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

/// Tasks that run later: once, at a fixed rate, and with a fixed delay.
#[derive(Parser)]
struct Args {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    Args::parse();
    match run().await {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

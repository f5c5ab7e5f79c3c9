//! Measures a wake-up of the driver that fires one timer, for several numbers of shards.

use std::{pin::Pin, thread, time::Duration};

use indicatif::HumanCount;
use tokio_wheel::Timer;

use crate::{
    lab::{is_pending, runtime},
    process::cpu_time,
};

pub const SHARDS: [usize; 3] = [1, 64, 1_024];

const WAKE_UPS: u32 = 200;

/// The duration of a timer that fires. tokio's alarm rounds it up to a millisecond.
const NEXT: Duration = Duration::from_micros(500);

const LIMIT: Duration = Duration::from_secs(30);

const HELD: usize = 16;

pub fn name(shards: usize) -> String {
    format!(
        "each shard holds sleeps, shards {}",
        HumanCount(shards as u64)
    )
}

/// Returns the CPU time of the process per wake-up, with pending sleeps in each shard.
pub fn sample(shards: usize) -> Duration {
    let runtime = runtime(1);
    let timer = {
        let _entered = runtime.enter();
        let builder = Timer::builder().shards(shards);
        builder.build().expect("the number of shards is in range")
    };
    let register = || {
        let mut sleeps: Vec<_> = (0..HELD).map(|_| timer.sleep(LIMIT)).collect();
        assert!((sleeps.iter_mut()).all(|sleep| is_pending(Pin::new(sleep))));
        sleeps
    };
    // Threads outside the runtime get their shards in turn, when they first need a shard.
    let sleeps: Vec<_> = (0..shards)
        .map(|_| thread::scope(|scope| scope.spawn(register).join()))
        .collect::<Result<_, _>>()
        .expect("a thread panicked");
    let task = runtime.spawn(async move {
        timer.sleep(NEXT).await;
        let before = cpu_time();
        for _ in 0..WAKE_UPS {
            timer.sleep(NEXT).await;
        }
        (cpu_time() - before) / WAKE_UPS
    });
    let spent = runtime.block_on(task).expect("the task panicked");
    drop(sleeps);
    spent
}

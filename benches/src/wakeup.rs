//! What a wake-up of the driver costs that fires one timer, by the number of shards.

use std::{pin::pin, thread, time::Duration};

use tokio_wheel::Timer;

use crate::{
    lab::{is_pending, on_workers, runtime},
    process::cpu_time,
};

/// The numbers of shards.
pub const SHARDS: [usize; 5] = [1, 16, 64, 256, 1_024];

/// How often the driver wakes up.
pub const WAKE_UPS: u32 = 200;

/// When the next timer is due. On tokio's alarm that takes a millisecond.
const NEXT: Duration = Duration::from_micros(500);

/// What the other sleeps wait for.
const LIMIT: Duration = Duration::from_secs(30);

/// The sleeps that each shard holds, if it holds any.
const HELD: usize = 16;

/// The CPU time of the process per wake-up. If `held`, each shard holds pending sleeps of 30 s; otherwise
/// all shards but the first are empty.
pub fn sample(shards: usize, held: bool) -> Duration {
    let runtime = runtime(1);
    let timer = {
        let _entered = runtime.enter();
        let builder = Timer::builder().shards(shards);
        builder.build().expect("the number of shards is in range")
    };
    let mut sleeps = Vec::new();
    for _ in 0..if held { shards } else { 0 } {
        // Threads that are no workers use the shards in turn, in the order in which they first use one.
        let register = || {
            let held = (0..HELD).map(|_| {
                let mut sleep = timer.sleep(LIMIT);
                assert!(is_pending(pin!(&mut sleep)));
                sleep
            });
            held.collect::<Vec<_>>()
        };
        let registered = thread::scope(|scope| scope.spawn(register).join());
        sleeps.extend(registered.expect("a thread panicked"));
    }
    let sample = on_workers(&runtime, 1, |_| fire(timer.clone()))[0];
    drop(sleeps);
    sample
}

async fn fire(timer: Timer) -> Duration {
    timer.sleep(NEXT).await;
    let before = (cpu_time(), timer.metrics().driver_wakeups());
    for _ in 0..WAKE_UPS {
        timer.sleep(NEXT).await;
    }
    let spent = cpu_time() - before.0;
    let wakeups = timer.metrics().driver_wakeups() - before.1;
    assert!(
        wakeups >= u64::from(WAKE_UPS),
        "a timer fired without a wake-up"
    );
    spent.div_f64(wakeups as f64)
}

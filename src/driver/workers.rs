//! Whether the watch wakes a worker.
//!
//! tokio counts how often each worker has parked and unparked (an even number: the worker is active), and for how long
//! it has been busy, which it updates whenever the worker polls the driver. The watch reads these counts again and again. It
//! wakes a worker if
//!
//! 1. a worker is parked,
//! 2. another one is active, has not moved since the last look, and has moved since the watch last woke a worker, and
//! 3. no worker has moved since the last look, because one that parks would go to wait in the driver; or the alarm is
//!    late, because tokio's alternative timer keeps it in the blocked worker's own wheel.
//!
//! So the watch wakes once for each block. If no active worker has moved since the last wake-up, the last change since
//! then was that some worker parked, and that worker waits in the driver.
//!
//! A block counts when it is as long as the watch's period. A shorter one may be a task that computes for some milliseconds.
//! After one that counts, the watch looks more often for some time ([`CALM`]), because a task that has blocked often blocks again.

use std::time::{Duration, Instant};

/// The number of periods without a block that counts after which the runtime is calm.
const CALM: u32 = 1_000;

/// The workers of a runtime, as of the last look.
pub(crate) struct Workers {
    all: Vec<Worker>,
    /// The length from which on a block counts.
    least: Duration,
    /// When the runtime is calm again.
    calm: Instant,
}

#[derive(Clone)]
struct Worker {
    /// How often the worker had parked and unparked, and for how long it had been busy.
    counts: (u64, Duration),
    /// The time of the first look that read these counts.
    since: Instant,
    /// The length of the block, if the watch has woken another worker for it.
    block: Option<Duration>,
}

impl Worker {
    fn is_active(&self) -> bool {
        self.counts.0 % 2 == 0
    }
}

/// The result of a look.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) has_changed: bool,
    /// Whether no block has counted in the last [`CALM`] periods.
    pub(crate) is_calm: bool,
    /// Whether the watch wakes a worker.
    pub(crate) wakes: bool,
    /// Whether a worker may block that was not active at the last look.
    pub(crate) may_block: bool,
    /// The number of blocks that count from now on.
    pub(crate) counts: u64,
    /// The length of the longest block that lasts, even if it does not count yet.
    pub(crate) lasting: Duration,
    /// The lengths of blocks that have ended, and count.
    pub(crate) ended: Vec<Duration>,
}

impl Workers {
    pub(crate) fn new(number: usize, least: Duration, now: Instant) -> Self {
        let worker = Worker {
            counts: (0, Duration::ZERO),
            since: now,
            block: None,
        };
        let all = vec![worker; number];
        Self {
            all,
            least,
            calm: now,
        }
    }

    /// Compares the counts of all workers with those of the last look.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        is_late: bool,
        read: impl Fn(usize) -> (u64, Duration),
    ) -> Seen {
        let mut seen = Seen::default();
        let (mut is_any_parked, mut is_any_still) = (false, false);
        for (index, worker) in self.all.iter_mut().enumerate() {
            let counts = read(index);
            let has_changed = counts != worker.counts;
            if has_changed {
                if let Some(last) = worker.block.take() {
                    // The watch may have rested meanwhile. The worker was busy for as long as it was blocked.
                    let busy = counts.1.saturating_sub(worker.counts.1);
                    let length = last.max(busy.min(now - worker.since));
                    if length >= self.least {
                        seen.counts += u64::from(last < self.least);
                        seen.ended.push(length);
                    }
                }
                (worker.counts, worker.since) = (counts, now);
            }
            let is_new = worker.is_active() && worker.block.is_none();
            seen.has_changed |= has_changed;
            seen.may_block |= is_new && has_changed;
            is_any_still |= is_new && !has_changed;
            is_any_parked |= !worker.is_active();
        }
        seen.may_block &= is_any_parked;
        seen.wakes = is_any_parked && is_any_still && (is_late || !seen.has_changed);
        for worker in self.all.iter_mut().filter(|it| it.is_active()) {
            // A worker that has changed at this look is not blocked.
            if worker.since < now && (seen.wakes || worker.block.is_some()) {
                let length = now - worker.since;
                let last = worker.block.replace(length).unwrap_or_default();
                seen.lasting = seen.lasting.max(length);
                seen.counts += u64::from(last < self.least && self.least <= length);
            }
        }
        if seen.counts > 0 {
            self.calm = now + CALM * self.least;
        }
        seen.is_calm = self.calm <= now;
        seen
    }
}

#[cfg(all(test, not(tokio_wheel_loom)))]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(10);

    /// Workers whose counts a test sets, and the time of the next look.
    struct Hand {
        workers: Workers,
        counts: Vec<(u64, Duration)>,
        now: Instant,
    }

    impl Hand {
        /// Makes workers that are parked.
        fn new(workers: usize) -> Self {
            let mut hand = Self {
                workers: Workers::new(workers, 2 * PERIOD, Instant::now()),
                counts: vec![(1, Duration::ZERO); workers],
                now: Instant::now(),
            };
            assert!(hand.look().has_changed);
            assert!(!hand.look().has_changed, "all are parked");
            hand
        }

        fn look(&mut self) -> Seen {
            self.look_if(false)
        }

        fn look_if(&mut self, is_late: bool) -> Seen {
            self.now += PERIOD;
            self.workers
                .look(self.now, is_late, |worker| self.counts[worker])
        }

        /// Parks or unparks a worker.
        fn turn(&mut self, worker: usize) {
            self.counts[worker].0 += 1;
        }

        /// Returns how long the worker has blocked.
        fn block(&self, worker: usize) -> Option<Duration> {
            self.workers.all[worker].block
        }

        fn wakes(&mut self) -> bool {
            self.look().wakes
        }
    }

    #[test]
    fn a_block_wakes_one_worker_once_and_is_measured() {
        let mut hand = Hand::new(3);
        hand.turn(0);
        let seen = hand.look();
        assert!(seen.may_block && !seen.wakes, "it has just become active");
        let seen = hand.look();
        assert_eq!((seen.wakes, seen.counts), (true, 0), "it may just compute");
        assert_eq!(hand.block(0), Some(PERIOD));
        // The worker that was woken parks, and handles events from now on.
        for periods in 2..20 {
            hand.counts[1].0 += 2;
            let seen = hand.look();
            assert_eq!((seen.wakes, seen.counts), (false, u64::from(periods == 2)));
            assert_eq!(seen.lasting, periods * PERIOD);
        }
        assert!(!hand.wakes(), "another worker waits in the driver");
        hand.turn(0);
        let seen = hand.look();
        assert_eq!((seen.ended, seen.wakes), (vec![20 * PERIOD], false));
        assert_eq!(hand.look(), Seen::default());
    }

    #[test]
    fn after_a_block_the_runtime_is_calm_again_in_time() {
        let mut hand = Hand::new(2);
        hand.turn(0);
        assert!(hand.look().is_calm && hand.look().is_calm);
        assert!(!hand.look().is_calm, "the block counts");
        hand.turn(0);
        let looks = (0..9 * CALM).take_while(|_| !hand.look().is_calm);
        assert_eq!(looks.count(), 2 * CALM as usize - 1);
    }

    #[test]
    fn a_task_that_computes_for_a_moment_does_not_count() {
        let mut hand = Hand::new(2);
        hand.turn(0);
        assert!(!hand.wakes() && hand.wakes());
        hand.turn(0);
        hand.counts[0].1 += PERIOD;
        let seen = hand.look();
        assert!(seen.has_changed && seen.ended.is_empty() && seen.counts == 0);
    }

    /// The watch rests meanwhile, because nothing else moves.
    #[test]
    fn a_block_counts_in_full_although_the_watch_rested() {
        let mut hand = Hand::new(2);
        hand.turn(0);
        assert!(!hand.wakes() && hand.wakes());
        hand.now += 100 * PERIOD;
        hand.turn(0);
        hand.counts[0].1 += 90 * PERIOD;
        let seen = hand.look();
        assert_eq!((seen.counts, seen.ended), (1, vec![90 * PERIOD]));
    }

    #[test]
    fn a_worker_that_blocks_after_it_was_woken_is_a_block_of_its_own() {
        let mut hand = Hand::new(3);
        hand.turn(0);
        assert!(!hand.wakes() && hand.wakes());
        hand.turn(1);
        assert!(!hand.wakes() && hand.wakes());
        hand.turn(2);
        assert!(!hand.wakes() && !hand.wakes(), "no worker is free");
        hand.turn(0);
        assert!(
            !hand.wakes() && hand.wakes(),
            "it parks, and worker 2 has blocked since"
        );
        assert!(!hand.wakes());
    }

    #[test]
    fn busy_workers_are_left_alone() {
        let mut hand = Hand::new(2);
        hand.turn(0);
        for _ in 0..20 {
            // The worker looks for events now and then.
            hand.counts[0].1 += PERIOD;
            assert!(!hand.wakes());
        }
        // It blocks at last, and has not parked in between.
        assert!(hand.wakes() && !hand.wakes());
        hand.counts[0].1 += PERIOD;
        hand.turn(1);
        assert!(!hand.wakes() && !hand.wakes(), "no worker is free");
    }

    #[test]
    fn a_late_alarm_wakes_a_worker_although_others_move() {
        let mut hand = Hand::new(3);
        hand.turn(0);
        assert!(
            !hand.look_if(true).wakes,
            "the worker has just become active"
        );
        hand.counts[1].0 += 2;
        assert!(!hand.wakes(), "the other worker handles events");
        hand.counts[1].0 += 2;
        assert!(hand.look_if(true).wakes);
        assert_eq!((hand.block(0), hand.block(1)), (Some(2 * PERIOD), None));
        hand.counts[1].0 += 2;
        assert!(!hand.look_if(true).wakes);
        // Only the worker that has not moved is blocked.
        hand.turn(0);
        hand.turn(1);
        let ended = hand.look().ended;
        assert_eq!(ended, [3 * PERIOD]);
    }
}

//! Each test runs the same body on `tokio-stream` and on this crate. The events and their virtual times must be equal.

use std::{
    cell::Cell,
    fmt::Debug,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
    vec,
};

use futures_core::Stream;

use super::{FromFn, next, peek};
use crate::support::{
    Random,
    log::{Log, side_by_side},
    ms,
};

mod theirs {
    pub(crate) use tokio::time::*;
    pub(crate) use tokio_stream::{StreamExt, wrappers::IntervalStream};
}

mod ours {
    pub(crate) use tokio_wheel::*;
    pub(crate) use tokio_wheel_util::stream::{IntervalStream, StreamExt};
}

impl Log {
    /// Notes all items to the end, and the size hint before each item.
    async fn note_all<S: Stream<Item: Debug>>(&self, stream: S) {
        let mut stream = pin!(stream);
        loop {
            self.note(stream.size_hint());
            let item = next(&mut stream).await;
            self.note(&item);
            if item.is_none() {
                break;
            }
        }
        self.note(stream.size_hint());
    }

    async fn note_first<S: Stream<Item: Debug> + Unpin>(&self, count: usize, stream: &mut S) {
        for _ in 0..count {
            let item = next(stream).await;
            self.note(item);
        }
    }
}

/// A stream of 0, 1, 2, and so on, each this many milliseconds after its first poll. The last delay is for the end.
struct Script<F> {
    sleep: fn(Duration) -> F,
    delays: vec::IntoIter<u64>,
    waits: Option<Pin<Box<F>>>,
    yielded: usize,
}

fn script<F>(sleep: fn(Duration) -> F, delays: impl Into<Vec<u64>>) -> Script<F> {
    Script {
        sleep,
        delays: delays.into().into_iter(),
        waits: None,
        yielded: 0,
    }
}

impl<F: Future<Output = ()>> Stream for Script<F> {
    type Item = usize;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let delay = *self
            .delays
            .as_slice()
            .first()
            .expect("polled after its end");
        if delay > 0 {
            let sleep = self.sleep;
            let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(ms(delay))));
            ready!(waits.as_mut().poll(cx));
            self.waits = None;
        }
        self.delays.next();
        if self.delays.as_slice().is_empty() {
            return Poll::Ready(None);
        }
        self.yielded += 1;
        Poll::Ready(Some(self.yielded - 1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let items = self.delays.len().saturating_sub(1);
        (items, Some(items))
    }
}

impl<F> Drop for Script<F> {
    fn drop(&mut self) {
        DROPPED.set(DROPPED.get() + 1);
    }
}

thread_local! {
    /// The number of scripts dropped since a body set it to zero.
    static DROPPED: Cell<usize> = const { Cell::new(0) };
}

/// Returns delays. Many are zero, as if items arrived in bursts.
fn delays(random: &mut Random) -> Vec<u64> {
    let items = random.below(12);
    (0..=items)
        .map(|_| random.below(2) * random.below(70))
        .collect()
}

side_by_side! {
    (theirs, theirs::StreamExt) (ours, ours::StreamExt)

    async fn throttle_without_a_pause_does_not_yield(time, log) {
        // However many items there are.
        let unpaused = script(time::sleep, vec![0; 1_000]).throttle(Duration::ZERO);
        let mut unpaused = pin!(unpaused);
        let count_at_once = poll_fn(|cx| {
            let count = (0..).take_while(|_| {
                matches!(unpaused.as_mut().poll_next(cx), Poll::Ready(Some(_)))
            });
            Poll::Ready(count.count())
        });
        log.note(count_at_once.await);
    }

    /// `Throttle` polls the inner stream after its end, and does not pause after the end.
    async fn throttle_of_a_stream_that_goes_on_after_its_end(time, log) {
        let mut turns = 0..;
        let stops_at_odd = move |_: &mut Context<'_>| {
            Poll::Ready(turns.next().filter(|turn| turn % 2 == 0))
        };
        let mut stream = pin!(FromFn(stops_at_odd).throttle(ms(25)));
        log.note_first(7, &mut stream).await;
    }

    async fn chunks_give_their_remainder(time, log) {
        let delays = [0, 10, 100, 0, 5];
        let mut stream = pin!(script(time::sleep, delays).chunks_timeout(5, ms(25)));
        time::sleep(ms(1)).await;
        let polled = peek(&mut stream).await;
        log.note((polled, stream.size_hint()));
        time::sleep(ms(12)).await;
        let polled = peek(&mut stream).await;
        log.note((polled, stream.size_hint()));
        log.note(stream.as_mut().into_remainder());
        log.note((stream.as_mut().into_remainder(), stream.size_hint()));
        log.note_all(stream).await;
    }

    /// All adapters except `Throttle` drop the inner stream at its end, and then stay ended.
    async fn the_end_of_the_inner_stream(time, log) {
        DROPPED.set(0);
        let mut timeout = pin!(script(time::sleep, [0, 0]).timeout(ms(30)));
        let later = time::interval_at(time::Instant::now() + ms(30), ms(30));
        let mut repeating = pin!(script(time::sleep, [0, 0]).timeout_repeating(later));
        let mut throttle = pin!(script(time::sleep, [0, 0]).throttle(ms(30)));
        let mut chunks = pin!(script(time::sleep, [0, 0]).chunks_timeout(2, ms(30)));
        log.note_first(2, &mut throttle).await;
        log.note(DROPPED.get());
        for _ in 0..3 {
            log.note_first(1, &mut timeout).await;
            log.note((DROPPED.get(), timeout.size_hint()));
            log.note_first(1, &mut repeating).await;
            log.note((DROPPED.get(), repeating.size_hint()));
            log.note_first(1, &mut chunks).await;
            log.note((DROPPED.get(), chunks.size_hint()));
            time::sleep(ms(100)).await;
        }
    }

    async fn size_hints_at_the_limit_of_what_can_be_counted(time, log) {
        struct Sized(usize, Option<usize>);
        impl Stream for Sized {
            type Item = ();
            fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<()>> {
                Poll::Pending
            }
            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.0, self.1)
            }
        }
        let half = usize::MAX / 2;
        for (lower, upper) in [
            (0, Some(0)),
            (0, None),
            (7, Some(9)),
            (half, Some(half)),
            (half, Some(half + 1)),
            (usize::MAX, Some(usize::MAX)),
            (usize::MAX, None),
        ] {
            let sized = || Sized(lower, upper);
            log.note(sized().timeout(ms(1)).size_hint());
            log.note(sized().timeout_repeating(time::interval(ms(1))).size_hint());
            log.note(sized().throttle(ms(1)).size_hint());
            log.note(sized().chunks_timeout(3, ms(1)).size_hint());
        }
    }

    async fn interval_stream_in_time(time, log) {
        let start = time::Instant::now();
        let mut ticks = time::IntervalStream::new(time::interval(ms(10)));
        for _ in 0..5 {
            let tick = next(&mut ticks).await.map(|tick| tick - start);
            log.note((tick, ticks.size_hint()));
        }
        log.note(AsRef::<time::Interval>::as_ref(&ticks).period());
        AsMut::<time::Interval>::as_mut(&mut ticks).reset_after(ms(77));
        log.note(next(&mut ticks).await.map(|tick| tick - start));
        log.note(ticks.into_inner().tick().await - start);
    }

    async fn random_timeouts(time, log) {
        let mut random = Random(1);
        for _ in 0..300 {
            let stream = script(time::sleep, delays(&mut random));
            log.note_all(stream.timeout(ms(random.below(50)))).await;
            let first = time::Instant::now() + ms(random.below(50));
            let mut interval = time::interval_at(first, ms(1 + random.below(50)));
            interval.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
            let stream = script(time::sleep, delays(&mut random));
            log.note_all(stream.timeout_repeating(interval)).await;
        }
    }

    async fn random_throttles_and_chunks(time, log) {
        let mut random = Random(2);
        for _ in 0..300 {
            let stream = script(time::sleep, delays(&mut random));
            log.note_all(stream.throttle(ms(random.below(50)))).await;
            let size = 1 + random.below(6) as usize;
            let stream = script(time::sleep, delays(&mut random));
            log.note_all(stream.chunks_timeout(size, ms(random.below(90)))).await;
        }
    }

    async fn random_readers(time, log) {
        let mut random = Random(3);
        let behaviors = [
            time::MissedTickBehavior::Burst,
            time::MissedTickBehavior::Delay,
            time::MissedTickBehavior::Skip,
        ];
        for _ in 0..200 {
            let limit = ms(random.below(50));
            let mut timeout = pin!(script(time::sleep, delays(&mut random)).timeout(limit));
            let mut throttle = pin!(script(time::sleep, vec![0; 40]).throttle(limit));
            let mut chunks = pin!(script(time::sleep, delays(&mut random)).chunks_timeout(3, limit));
            let mut interval = time::interval(ms(1 + random.below(50)));
            interval.set_missed_tick_behavior(behaviors[random.below(3) as usize]);
            let items = script(time::sleep, delays(&mut random));
            let mut repeating = pin!(items.timeout_repeating(interval));
            for _ in 0..30 {
                time::sleep(ms(random.below(40))).await;
                let polled = (
                    peek(&mut timeout).await,
                    peek(&mut throttle).await,
                    peek(&mut chunks).await,
                    peek(&mut repeating).await,
                );
                log.note(polled);
            }
        }
    }
}

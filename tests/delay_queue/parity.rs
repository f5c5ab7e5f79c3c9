//! Each test runs its body on tokio-util's queue and on this queue, under the paused clock. The events, their
//! order and their virtual times must be equal.

use super::*;
use crate::support::log::side_by_side;

/// Records the elements of a queue, with their order and times.
macro_rules! note_all {
    ($log:ident, $queue:expr) => {
        while let Some(expired) = $queue.next().await {
            let deadline = expired.deadline() - $log.start;
            $log.note((expired.into_inner(), deadline));
        }
        $log.note("empty");
    };
}

/// Polls a queue in a mock task. Returns the expired element, if there is one.
macro_rules! poll_once {
    ($queue:expr) => {
        $queue
            .enter(|cx, mut queue| queue.poll_expired(cx))
            .map(|expired| expired.map(|expired| expired.into_inner()))
    };
}

/// Returns whether `body` panics.
fn panics<T>(body: impl FnOnce() -> T) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err()
}

side_by_side! {
    (tokio_util::time) (tokio_wheel)

    async fn elements_come_out_in_time(time, log) {
        let mut queue = time::DelayQueue::new();
        for millis in [
            1, 2, 5_000, 63, 64, 65, 4_095, 4_096, 4_097, 262_144, 16_777_216, 30_000_000_000,
            100, 99, 70,
        ] {
            queue.insert(millis, ms(millis));
        }
        note_all!(log, queue);
    }

    async fn insert_at_an_instant(time, log) {
        let mut queue = time::DelayQueue::new();
        for millis in [400, 20, 1_000_000, 21, 4_160] {
            queue.insert_at(millis, log.start + ms(millis));
        }
        note_all!(log, queue);
    }

    async fn a_delay_of_zero(time, log) {
        let mut queue = time::DelayQueue::new();
        queue.insert("at the start", Duration::ZERO);
        note_all!(log, queue);
        tokio::time::sleep(ms(50)).await;
        queue.insert("later", Duration::ZERO);
        note_all!(log, queue);
    }

    async fn a_deadline_in_the_past(time, log) {
        let mut queue = time::DelayQueue::new();
        for millis in [10, 3_000] {
            tokio::time::sleep(ms(millis)).await;
            queue.insert_at("past", Instant::now() - ms(millis));
            queue.insert_at("future", Instant::now() + ms(millis));
            while let Some(expired) = queue.next().await {
                log.note(expired.into_inner());
            }
        }
    }

    async fn several_deadlines_in_the_past(time, log) {
        let mut queue = time::DelayQueue::new();
        queue.insert("waits", secs(10));
        queue.insert("first", ms(100));
        log.note(queue.next().await.map(|expired| expired.into_inner()));
        for millis in [50, 70, 10, 90, 0] {
            queue.insert_at("past", log.start + ms(millis));
        }
        let mut last = log.start;
        while let Some(expired) = queue.next().await {
            log.note((expired.deadline() >= last, *expired.get_ref()));
            last = expired.deadline();
        }
    }

    async fn the_order_of_many(time, log) {
        let mut queue = time::DelayQueue::new();
        for n in 0..5_000_u64 {
            let millis = n * 7_919 % 5_000 * 13;
            queue.insert(n, ms(millis));
        }
        note_all!(log, queue);
    }

    async fn elements_inserted_as_time_passes(time, log) {
        let mut queue = time::DelayQueue::new();
        for n in 0..500_u64 {
            queue.insert_at(n, log.start + ms(n * 10 + 1 + n * 7_919 % 977 * 10));
            if n % 3 == 0 {
                tokio::time::sleep(ms(20)).await;
                while let Poll::Ready(Some(expired)) =
                    poll_fn(|cx| Poll::Ready(queue.poll_expired(cx))).await
                {
                    log.note((expired.deadline() - log.start, expired.into_inner()));
                }
            }
        }
        note_all!(log, queue);
    }

    async fn the_stream_goes_on_after_its_end(time, log) {
        let mut queue = time::DelayQueue::default();
        for round in 0..3 {
            log.note(queue.next().await.is_none());
            queue.insert(round, ms(7));
            note_all!(log, queue);
        }
    }

    async fn removed_elements_do_not_come_out(time, log) {
        let mut queue = time::DelayQueue::new();
        let keys: Vec<_> = (0..200_u64).map(|n| queue.insert(n, ms(n * 40))).collect();
        log.note(queue.next().await.map(|expired| expired.into_inner()));
        for (n, key) in keys.iter().enumerate().skip(1) {
            match n % 4 {
                0 => log.note(queue.remove(key).into_inner()),
                1 => log.note(queue.try_remove(key).map(|removed| removed.into_inner())),
                _ => {}
            }
        }
        log.note(queue.len());
        note_all!(log, queue);
    }

    async fn removed_twice(time, log) {
        let mut queue = time::DelayQueue::new();
        let key = queue.insert("a", ms(5));
        queue.insert("b", ms(6));
        let removed = queue.try_remove(&key).unwrap();
        log.note((removed.deadline() - log.start, removed.key() == key));
        log.note(queue.try_remove(&key).is_none());
        note_all!(log, queue);
        log.note(queue.try_remove(&key).is_none());
    }

    async fn the_first_is_removed_while_a_task_waits(time, log) {
        let mut queue = task::spawn(time::DelayQueue::new());
        let first = queue.insert("first", ms(10));
        queue.insert("second", ms(30));
        log.note(poll_once!(queue));
        queue.remove(&first);
        log.note(queue.is_woken());
        let mut queue = queue.into_inner();
        note_all!(log, queue);
    }

    async fn reset_to_a_later_deadline(time, log) {
        let mut queue = time::DelayQueue::new();
        let a = queue.insert("a", ms(10));
        queue.insert("b", ms(20));
        queue.reset(&a, ms(300));
        log.note(queue.next().await.map(|expired| expired.into_inner()));
        queue.insert("c", ms(100));
        queue.reset_at(&a, log.start + ms(5_000));
        log.note(queue.deadline(&a) - log.start);
        note_all!(log, queue);
    }

    async fn reset_to_an_earlier_deadline(time, log) {
        let mut queue = time::DelayQueue::new();
        let a = queue.insert("a", secs(1_000));
        let b = queue.insert("b", secs(2_000));
        queue.insert("c", secs(1));
        queue.reset(&b, ms(15));
        queue.reset_at(&a, log.start + ms(1_500));
        log.note((queue.deadline(&a) - log.start, queue.deadline(&b) - log.start));
        note_all!(log, queue);
    }

    async fn reset_to_and_fro(time, log) {
        let mut queue = time::DelayQueue::new();
        let key = queue.insert("a", ms(10));
        queue.insert("b", ms(77));
        for millis in [4_000, 5, 6, 70, 65, 64, 63, 80, 4_200, 78] {
            queue.reset(&key, ms(millis));
            log.note(queue.deadline(&key) - log.start);
        }
        note_all!(log, queue);
    }

    /// The idle timeout of a connection, which each touch resets.
    async fn put_off_time_and_again(time, log) {
        let mut queue = time::DelayQueue::new();
        let key = queue.insert("idle", ms(100));
        for _ in 0..20 {
            let idle = tokio::time::timeout(ms(60), queue.next()).await;
            log.note(idle.is_err());
            queue.reset(&key, ms(100));
        }
        note_all!(log, queue);
    }

    async fn reset_to_the_past(time, log) {
        let mut queue = time::DelayQueue::new();
        let a = queue.insert("a", ms(500));
        let b = queue.insert("b", ms(600));
        log.note(tokio::time::timeout(ms(100), queue.next()).await.is_err());
        queue.reset_at(&b, log.start + ms(50));
        log.note(queue.next().await.map(|expired| expired.into_inner()));
        queue.reset(&a, Duration::ZERO);
        log.note(queue.next().await.map(|expired| expired.into_inner()));
        log.note(queue.is_empty());
    }

    async fn due_elements_can_be_removed_and_reset(time, log) {
        let mut queue = time::DelayQueue::new();
        let removed = queue.insert("removed", ms(10));
        let reset = queue.insert("reset", ms(10));
        let past = queue.insert_at("past", log.start - ms(10));
        let put_off = queue.insert_at("put off", log.start - ms(10));
        queue.insert("untouched", ms(10));
        tokio::time::sleep(ms(5)).await;
        queue.reset(&put_off, ms(40));
        tokio::time::sleep(ms(10)).await;
        log.note((queue.len(), queue.is_empty()));
        log.note(queue.remove(&removed).into_inner());
        log.note(queue.try_remove(&past).map(|removed| removed.into_inner()));
        queue.reset(&reset, ms(20));
        note_all!(log, queue);
    }

    async fn due_elements_stay_until_polled(time, log) {
        let mut queue = task::spawn(time::DelayQueue::new());
        let keys = [3, 2, 1].map(|n| queue.insert(n, ms(10 * n)));
        log.note(poll_once!(queue));
        tokio::time::sleep(secs(1)).await;
        log.note(queue.is_woken());
        for key in &keys {
            log.note((queue.len(), queue.deadline(key) - log.start));
        }
        for _ in 0..4 {
            log.note(poll_once!(queue));
        }
    }

    async fn deadlines_are_what_was_asked_for(time, log) {
        let mut queue = time::DelayQueue::new();
        for millis in [0, 1, 10, 63, 64, 65, 4_096, 1_000_000, 40_000_000_000] {
            let key = queue.insert(millis, ms(millis));
            let deadline = queue.deadline(&key);
            log.note(deadline - log.start);
            log.note(queue.remove(&key).deadline() == deadline);
        }
    }

    async fn peek_names_the_next(time, log) {
        let mut queue = time::DelayQueue::new();
        log.note(queue.peek().is_none());
        let keys = [50, 5_000, 40, 300_000, 41, 4_999].map(|n| queue.insert(n, ms(n)));
        queue.reset(&keys[0], ms(6_000));
        queue.reset(&keys[3], ms(45));
        queue.remove(&keys[2]);
        while let Some(first) = queue.peek() {
            log.note((keys.iter().position(|key| *key == first), queue.deadline(&first) - log.start));
            let expired = queue.next().await.unwrap();
            log.note((expired.key() == first, expired.into_inner()));
        }
        log.note(queue.next().await.is_none());
    }

    async fn peek_names_what_is_due(time, log) {
        let mut queue = time::DelayQueue::new();
        for n in [30, 10, 20] {
            queue.insert(n, ms(n));
        }
        tokio::time::sleep(ms(100)).await;
        for _ in 0..3 {
            let first = queue.peek().unwrap();
            log.note(queue.remove(&first).into_inner());
        }
        log.note(queue.peek().is_none());
    }

    async fn clear_empties(time, log) {
        let mut queue = time::DelayQueue::new();
        let key = queue.insert("gone", ms(10));
        queue.insert_at("gone as well", log.start - ms(1));
        queue.insert("gone too", secs(1_000));
        log.note(tokio::time::timeout(ms(0), queue.next()).await.is_ok());
        queue.clear();
        log.note((queue.len(), queue.is_empty(), queue.peek().is_none()));
        log.note(queue.next().await.is_none());
        log.note(queue.try_remove(&key).is_none());
        queue.insert("b", ms(20));
        queue.insert("a", ms(19));
        note_all!(log, queue);
    }

    async fn clear_after_time_has_passed(time, log) {
        let mut queue = time::DelayQueue::new();
        queue.insert("a", ms(100));
        queue.insert("b", secs(100));
        log.note(queue.next().await.map(|expired| expired.into_inner()));
        queue.clear();
        queue.insert("c", ms(1));
        queue.insert("d", secs(200));
        note_all!(log, queue);
    }

    /// The queue is compacted several times, with removals, insertions and resets in between.
    async fn compaction_leaves_keys_and_deadlines(time, log) {
        let mut queue = time::DelayQueue::new();
        let mut live = Vec::new();
        for round in 0..6_u64 {
            for n in 0..2_000 {
                let value = round * 2_000 + n;
                live.push((value, queue.insert(value, ms(value * 7_919 % 12_000 + 100))));
            }
            // Fewer elements stay each time, so tokio-util's queue moves some repeatedly.
            let stays = |(value, _): &(u64, _)| value % 20 < 12 - 2 * round;
            let (stay, go): (Vec<_>, Vec<_>) = live.into_iter().partition(stays);
            live = stay;
            for (value, key) in go {
                let removed = queue.remove(&key);
                log.note((removed.key() == key, removed.into_inner() == value));
            }
            queue.compact();
            for (value, key) in &live {
                log.note((value, queue.deadline(key) - log.start));
                if value % 3 == 0 {
                    queue.reset(key, ms(value % 1_000 * 13));
                }
            }
        }
        log.note((live.len(), queue.len()));
        while let Some(expired) = queue.next().await {
            let key = expired.key();
            let known = live.iter().any(|(value, own)| value == expired.get_ref() && *own == key);
            log.note((known, expired.deadline() - log.start));
        }
    }

    async fn compaction_of_elements_that_are_due(time, log) {
        let mut queue = time::DelayQueue::new();
        let keys: Vec<_> = (0..1_000_u64).map(|n| queue.insert(n, ms(n + 10))).collect();
        tokio::time::sleep(ms(500)).await;
        for _ in 0..100 {
            log.note(queue.next().await.map(|expired| expired.into_inner()));
        }
        queue.compact();
        log.note(queue.peek() == Some(keys[100]));
        for key in keys.iter().skip(100).step_by(2) {
            log.note(queue.remove(key).into_inner());
        }
        queue.compact();
        queue.shrink_to_fit();
        while let Some(expired) = queue.next().await {
            let known = keys[*expired.get_ref() as usize] == expired.key();
            log.note((known, expired.into_inner()));
        }
    }

    async fn capacity_and_length(time, log) {
        let mut queue = time::DelayQueue::with_capacity(1_000);
        log.note((queue.capacity() >= 1_000, queue.len(), queue.is_empty()));
        for n in 0..700 {
            queue.insert(n, ms(n));
        }
        log.note((queue.capacity() >= 1_000, queue.len(), queue.is_empty()));
        queue.reserve(5_000);
        log.note((queue.capacity() >= 5_700, queue.len()));
        queue.shrink_to_fit();
        log.note((queue.capacity() >= 700, queue.len()));
        queue.compact();
        log.note((queue.capacity() >= 700, queue.len()));
        note_all!(log, queue);
        queue.shrink_to_fit();
        log.note((queue.capacity(), queue.len(), queue.is_empty()));
    }

    async fn what_has_expired(time, log) {
        let mut queue = time::DelayQueue::new();
        let key = queue.insert(vec![1], ms(10));
        let mut expired = queue.next().await.unwrap();
        log.note(expired.get_ref());
        expired.get_mut().push(2);
        log.note((expired.deadline() - log.start, expired.key() == key));
        log.note(expired.into_inner());
    }

    async fn debug_output(time, log) {
        let mut queue = time::DelayQueue::new();
        let key = queue.insert(7, ms(10));
        log.note(format!("{queue:?}").starts_with("DelayQueue { "));
        log.note(format!("{key:?}").starts_with("Key"));
        let expired = format!("{:?}", queue.remove(&key));
        log.note(expired.starts_with("Expired { data: 7, deadline: Instant"));
        log.note(expired.contains(&format!("key: {key:?}")));
    }

    async fn what_wakes_a_task_that_waits(time, log) {
        let mut queue = task::spawn(time::DelayQueue::new());
        let first = queue.insert("first", ms(1_000));
        log.note(poll_once!(queue));
        log.note(("inserted before the poll", queue.is_woken()));
        let later = queue.insert("later", ms(2_000));
        log.note(("inserted later", queue.is_woken()));
        let same = queue.insert("same", ms(1_000));
        log.note(("inserted at the same time", queue.is_woken()));
        queue.remove(&same);
        queue.try_remove(&later);
        log.note(("removed, not the last", queue.is_woken()));

        let earlier = queue.insert("earlier", ms(500));
        log.note(("inserted earlier", queue.is_woken()));
        log.note(poll_once!(queue));
        queue.remove(&earlier);
        log.note(("removed the first", queue.is_woken()));
        log.note(poll_once!(queue));
        queue.reset_at(&first, log.start - ms(1));
        log.note(("reset to the past", queue.is_woken()));
        log.note(poll_once!(queue));
        log.note(("came out", queue.is_woken()));
    }

    async fn what_wakes_a_task_that_found_the_queue_empty(time, log) {
        let mut queue = task::spawn(time::DelayQueue::new());
        log.note(poll_once!(queue));
        queue.clear();
        log.note(("cleared nothing", queue.is_woken()));
        let key = queue.insert("a", secs(1_000));
        log.note(("inserted", queue.is_woken()));
        log.note(poll_once!(queue));
        queue.remove(&key);
        log.note(("removed the last", queue.is_woken()));
        log.note(poll_once!(queue));
        queue.insert("b", secs(2_000));
        log.note(("inserted again", queue.is_woken()));
        log.note(poll_once!(queue));
        queue.clear();
        log.note(("cleared", queue.is_woken()));
        log.note(poll_once!(queue));
        let key = queue.insert("c", ms(10));
        log.note(("inserted a third time", queue.is_woken()));
        log.note(poll_once!(queue));
        queue.try_remove(&key);
        log.note(("tried to remove the last", queue.is_woken()));
    }

    /// Code that checks `is_empty` does not poll an empty queue. It waits for an insertion.
    async fn what_wakes_a_task_that_took_the_last_element(time, log) {
        let mut queue = task::spawn(time::DelayQueue::new());
        queue.insert("a", ms(10));
        tokio::time::sleep(ms(20)).await;
        log.note(poll_once!(queue));
        log.note((queue.is_empty(), queue.is_woken()));
        queue.insert("b", ms(10));
        log.note(("inserted", queue.is_woken()));
    }

    async fn the_task_is_woken_in_time(time, log) {
        let mut queue = task::spawn(time::DelayQueue::new());
        queue.insert("a", ms(10));
        log.note(poll_once!(queue));
        tokio::time::sleep(ms(9)).await;
        settle().await;
        log.note(queue.is_woken());
        tokio::time::sleep(ms(1)).await;
        settle().await;
        log.note(queue.is_woken());
        log.note(poll_once!(queue));
    }

    /// The queue wakes the task that polled last.
    async fn the_last_poll_decides_who_is_woken(time, log) {
        let mut queue = time::DelayQueue::new();
        let mut first = task::spawn(());
        let mut last = task::spawn(());
        let key = queue.insert("a", ms(100));
        for _ in 0..2 {
            log.note(first.enter(|cx, _| queue.poll_expired(cx).is_pending()));
            log.note(last.enter(|cx, _| queue.poll_expired(cx).is_pending()));
            log.note((first.is_woken(), last.is_woken()));
            let earlier = queue.insert("earlier", ms(50));
            log.note((first.is_woken(), last.is_woken()));
            queue.remove(&earlier);
            log.note(first.enter(|cx, _| queue.poll_expired(cx).is_pending()));
            log.note(last.enter(|cx, _| queue.poll_expired(cx).is_pending()));
        }
        tokio::time::sleep(ms(101)).await;
        settle().await;
        log.note((first.is_woken(), last.is_woken()));
        queue.remove(&key);
        log.note(first.enter(|cx, _| queue.poll_expired(cx).is_ready()));
        log.note(last.enter(|cx, _| queue.poll_expired(cx).is_ready()));
        queue.insert("b", ms(1));
        log.note((first.is_woken(), last.is_woken()));
    }

    /// One task waits, another changes the queue.
    async fn a_task_waits_while_others_change_the_queue(time, log) {
        let queue = Arc::new(Mutex::new(time::DelayQueue::new()));
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let waits = tokio::spawn({
            let queue = queue.clone();
            poll_fn(move |cx| {
                while let Poll::Ready(Some(expired)) = queue.lock().unwrap().poll_expired(cx) {
                    sender.send((expired.into_inner(), Instant::now())).unwrap();
                }
                Poll::<()>::Pending
            })
        });
        settle().await;
        let insert = |name, millis| queue.lock().unwrap().insert(name, ms(millis));
        insert("into the empty queue", 20);
        tokio::time::sleep(ms(31)).await;
        insert("after the last came out", 20);
        tokio::time::sleep(ms(31)).await;
        insert("far", 10_000);
        settle().await;
        insert("before that", 100);
        settle().await;
        let key = insert("reset", 5_000);
        settle().await;
        queue.lock().unwrap().reset(&key, ms(50));
        tokio::time::sleep(ms(201)).await;
        let key = insert("put off", 10);
        settle().await;
        queue.lock().unwrap().reset(&key, ms(77));
        let key = insert("reset to the past", 3_000);
        settle().await;
        queue.lock().unwrap().reset_at(&key, log.start);
        tokio::time::sleep(ms(101)).await;
        queue.lock().unwrap().clear();
        settle().await;
        insert("after it was cleared", 20_000);
        tokio::time::sleep(ms(1)).await;
        let key = insert("removed", 5);
        settle().await;
        queue.lock().unwrap().remove(&key);
        tokio::time::sleep(secs(30)).await;
        waits.abort();
        while let Ok((name, when)) = receiver.try_recv() {
            log.note((name, when - log.start));
        }
    }

    async fn next_is_cancel_safe(time, log) {
        let mut queue = time::DelayQueue::new();
        for n in 1..10 {
            queue.insert(n, ms(n * 35));
        }
        let mut ticks = tokio::time::interval(ms(10));
        loop {
            tokio::select! {
                biased;
                _ = ticks.tick() => log.note("tick"),
                expired = queue.next() => match expired {
                    Some(expired) => log.note(expired.into_inner()),
                    None => break,
                },
            }
        }
    }

    async fn a_queue_goes_from_task_to_task(time, log) {
        let mut queue = time::DelayQueue::new();
        for n in 1..6 {
            queue.insert(n, ms(n * 100));
        }
        for _ in 0..5 {
            log.note(tokio::time::timeout(ms(30), queue.next()).await.is_err());
            let task = tokio::spawn(async move {
                let expired = queue.next().await.map(|expired| expired.into_inner());
                (expired, queue)
            });
            let (expired, back) = task.await.unwrap();
            log.note(expired);
            queue = back;
        }
    }

    async fn what_panics(time, log) {
        let mut queue = time::DelayQueue::new();
        queue.insert("stays", secs(1));
        let gone = queue.insert("goes", ms(10));
        log.note(queue.next().await.map(|expired| expired.into_inner()));
        log.note(panics(|| queue.remove(&gone)));
        log.note(panics(|| queue.deadline(&gone)));
        log.note(panics(|| queue.reset(&gone, ms(1))));
        log.note(panics(|| queue.reset_at(&gone, log.start)));
        log.note(panics(|| queue.try_remove(&gone)));

        let mut queue = time::DelayQueue::new();
        let gone = queue.insert("cleared", ms(10));
        queue.clear();
        log.note(panics(|| queue.remove(&gone)));
        log.note(panics(|| queue.deadline(&gone)));
        log.note(panics(|| queue.reset(&gone, ms(1))));
        log.note(panics(|| queue.reset_at(&gone, log.start)));

        let mut queue = time::DelayQueue::new();
        let gone = queue.insert("removed", ms(10));
        let stays = queue.insert("moved", ms(10));
        queue.remove(&gone);
        queue.compact();
        log.note(panics(|| queue.remove(&gone)));
        log.note(panics(|| queue.deadline(&gone)));
        log.note(panics(|| queue.reset(&gone, ms(1))));
        log.note(panics(|| queue.remove(&stays)));
        log.note(panics(|| queue.reserve(usize::MAX / 2)));
        log.note(panics(|| time::DelayQueue::<u8>::with_capacity(1)));
    }
}

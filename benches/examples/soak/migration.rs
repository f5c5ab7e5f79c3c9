//! Sleeps that migrate: created, and perhaps polled, on one target and awaited on another.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    runtime::Handle,
    sync::mpsc::{Receiver, Sender, channel},
};

use crate::target::{Target, Tracked};

/// How many sleeps may be under way to one receiver.
const CAPACITY: usize = 256;

/// A sleep under way.
pub struct Migration {
    pub sleep: Tracked,
    /// The target whose timer has it. None for a sleep of a default timer that was never polled: the receiver's
    /// timer will have it.
    pub target: Option<Arc<Target>>,
}

/// The channels by which sleeps migrate, until they are closed.
#[derive(Default)]
pub struct Migrations {
    senders: Mutex<Vec<Sender<Migration>>>,
    next: AtomicUsize,
}

impl Migrations {
    /// Adds a receiver, which gets a share of the sleeps.
    pub fn add_receiver(&self) -> Receiver<Migration> {
        let (sender, receiver) = channel(CAPACITY);
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        senders.push(sender);
        receiver
    }

    /// Sends a sleep to the next receiver. Drops it if there is no receiver, or if its channel is full.
    pub fn send(&self, migration: Migration) {
        let senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let to = (!senders.is_empty()).then(|| senders[next % senders.len()].clone());
        drop(senders);
        if let Some(to) = to {
            // A sleep that is refused is dropped on this thread.
            drop(to.try_send(migration));
        }
    }

    /// Closes the channels. The receivers still get the sleeps that are under way.
    pub fn close(&self) {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        senders.clear();
    }
}

/// Awaits the sleeps that are received, as a task of `here` or on a thread that has entered its runtime.
pub async fn receive(here: Arc<Target>, mut receiver: Receiver<Migration>) {
    let mut waiting = FuturesUnordered::new();
    loop {
        tokio::select! {
            migration = receiver.recv() => match migration {
                Some(migration) => waiting.push(finish(&here, migration)),
                None => break,
            },
            Some(()) = waiting.next() => {}
        }
    }
    while let Some(()) = waiting.next().await {}
}

async fn finish(here: &Arc<Target>, migration: Migration) {
    let Migration { mut sleep, target } = migration;
    let is_outside = Handle::try_current().is_err();
    let target = match target {
        // Without a runtime there is no ambient timer, and none to replace one that is shut down.
        _ if is_outside && target.as_ref().is_none_or(|target| target.may_lose_timer()) => return,
        Some(target) => target,
        None => {
            sleep.move_over(here);
            here.clone()
        }
    };
    target.outlive(sleep).await;
}

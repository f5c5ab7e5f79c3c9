//! Sleeps that migrate. A sleep is created on one target, perhaps polled there, and awaited on
//! another target.

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

/// How many sleeps one receiver's channel can hold.
const CAPACITY: usize = 256;

/// A migrating sleep.
pub struct Migration {
    pub sleep: Tracked,
    /// The target of the timer that holds the sleep. `None` for a sleep of a default timer that was
    /// never polled. The receiver's timer will hold it.
    pub target: Option<Arc<Target>>,
}

/// The channels by which sleeps migrate, until they are closed.
#[derive(Default)]
pub struct Migrations {
    senders: Mutex<Vec<Sender<Migration>>>,
    next: AtomicUsize,
}

impl Migrations {
    /// Adds a receiver, which gets a part of the sleeps.
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
            // If the channel refuses a sleep, this thread drops it.
            drop(to.try_send(migration));
        }
    }

    /// Closes the channels. The receivers still get the sleeps in the channels.
    pub fn close(&self) {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        senders.clear();
    }
}

/// Awaits the received sleeps, in a task of `here` or on a thread that has entered its runtime.
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
        // Without a runtime there is no default timer, and no other timer can replace a timer that
        // has shut down.
        _ if is_outside && target.as_ref().is_none_or(|target| target.may_lose_timer()) => return,
        Some(target) => target,
        None => {
            sleep.move_over(here);
            here.clone()
        }
    };
    target.outlive(sleep).await;
}

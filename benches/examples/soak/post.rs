//! Sleeps that move: made, and perhaps polled, in one place and awaited in another.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    runtime::Handle,
    sync::mpsc::{Receiver, Sender, channel},
};

use crate::place::{Place, Tracked};

/// So many sleeps may be under way to one receiver.
const ROOM: usize = 256;

/// A sleep under way.
pub struct Parcel {
    pub sleep: Tracked,
    /// Where it belongs. None if that is where it arrives, as it is ambient and was never polled.
    pub place: Option<Arc<Place>>,
}

/// Where sleeps are sent, until it is closed.
#[derive(Default)]
pub struct Post {
    boxes: Mutex<Vec<Sender<Parcel>>>,
    next: AtomicUsize,
}

impl Post {
    /// Receives a share of the parcels.
    pub fn open_box(&self) -> Receiver<Parcel> {
        let (sender, receiver) = channel(ROOM);
        let mut boxes = self.boxes.lock().unwrap_or_else(PoisonError::into_inner);
        boxes.push(sender);
        receiver
    }

    /// Sends a parcel to one of those who receive; drops it if there is none who has room.
    pub fn send(&self, parcel: Parcel) {
        let boxes = self.boxes.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let to = (!boxes.is_empty()).then(|| boxes[next % boxes.len()].clone());
        drop(boxes);
        if let Some(to) = to {
            // What comes back, comes back here: it is dropped on this thread.
            drop(to.try_send(parcel));
        }
    }

    /// The receivers get what is under way, and then no more.
    pub fn close(&self) {
        let mut boxes = self.boxes.lock().unwrap_or_else(PoisonError::into_inner);
        boxes.clear();
    }
}

/// Awaits, as a task of `here` or on a thread that has entered it, what the post brings.
pub async fn receive(here: Arc<Place>, mut parcels: Receiver<Parcel>) {
    let mut waiting = FuturesUnordered::new();
    loop {
        tokio::select! {
            parcel = parcels.recv() => match parcel {
                Some(parcel) => waiting.push(unpack(&here, parcel)),
                None => break,
            },
            Some(()) = waiting.next() => {}
        }
    }
    while let Some(()) = waiting.next().await {}
}

async fn unpack(here: &Arc<Place>, parcel: Parcel) {
    let Parcel { mut sleep, place } = parcel;
    let is_outside = Handle::try_current().is_err();
    let place = match place {
        // Without a runtime there is no ambient timer, and none to replace one that is shut down.
        _ if is_outside && place.as_ref().is_none_or(|place| place.may_lose_timer()) => return,
        Some(place) => place,
        None => {
            sleep.move_over(here);
            here.clone()
        }
    };
    place.outlive(sleep).await;
}

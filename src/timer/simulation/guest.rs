//! Wakers that report each wake. A waker performs acts of the program when it is woken, cloned or dropped.

use std::{
    panic::resume_unwind,
    sync::{Arc, Mutex, Weak},
    task::Waker,
    thread::panicking,
};

use cooked_waker::{IntoWaker, WakeRef};

use super::{
    program::{Does, Guest as Manners, When},
    world::World,
};

/// The payload with which a guest's waker panics.
pub(super) struct Hostile;

/// The owner of some wakers.
///
/// Each waker holds a reference to its guest. All other references to the guest belong to the records of the
/// simulation.
pub(super) struct Guest {
    pub(super) number: u64,
    world: Weak<World>,
    /// The acts of the wakers, or `None` after a waker has performed the acts.
    manners: Mutex<Option<Manners>>,
    /// Whether the wakers are ordinary wakers. Other wakers can perform an act when they are cloned or dropped.
    plain: bool,
}

impl Guest {
    pub(super) fn new(world: Weak<World>, number: u64, manners: Manners) -> Arc<Self> {
        let plain = manners.on == When::Wake && number % 2 == 0;
        Arc::new(Self {
            number,
            world,
            manners: Mutex::new(Some(manners)),
            plain,
        })
    }

    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        if self.plain {
            return self.clone().into_waker();
        }
        Box::new(Own {
            guest: self.clone(),
            cloned: false,
        })
        .into_waker()
    }

    fn happens(&self, when: When) {
        let manners = {
            let mut manners = self.manners.lock().unwrap();
            manners.take_if(|manners| manners.on == when)
        };
        let (Some(manners), Some(world)) = (manners, self.world.upgrade()) else {
            return;
        };
        // A second panic during a panic would abort the process.
        if panicking() {
            return;
        }
        match manners.does {
            Does::Nothing => {}
            Does::Panics => {
                world.comes_to(match when {
                    When::Wake => "a waker that panics as it is woken",
                    When::Clone => "a waker that panics as it is cloned",
                    When::Drop => "a waker that panics as it is dropped",
                });
                // `resume_unwind` prints nothing.
                resume_unwind(Box::new(Hostile));
            }
            Does::Acts(acts) => {
                world.comes_to(match when {
                    When::Wake => "a waker that acts as it is woken",
                    When::Clone => "a waker that acts as it is cloned",
                    When::Drop => "a waker that acts as it is dropped",
                });
                world.within(acts);
            }
            Does::Blocks(thread, acts) => world.within_elsewhere(thread, acts),
        }
    }
}

impl WakeRef for Guest {
    fn wake_by_ref(&self) {
        if let Some(world) = self.world.upgrade() {
            world.ledger().wakes(self.number);
        }
        self.happens(When::Wake);
    }
}

/// A waker that can perform an act when it is cloned, or when a clone is dropped.
struct Own {
    guest: Arc<Guest>,
    cloned: bool,
}

impl Clone for Own {
    fn clone(&self) -> Self {
        self.guest.happens(When::Clone);
        Self {
            guest: self.guest.clone(),
            cloned: true,
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.cloned {
            self.guest.happens(When::Drop);
        }
    }
}

impl WakeRef for Own {
    fn wake_by_ref(&self) {
        self.guest.wake_by_ref();
    }
}

impl cooked_waker::Wake for Own {}

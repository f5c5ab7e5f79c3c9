//! What a connection has of its own: its place among those that are open, its requests and its age.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use super::{ended::Ended, error::OpenError, requests::Requests, shared::Shared};

/// The place of a connection, from its opening to its end. Its end counts once: by [`end`](Slot::end), or else
/// by the drop.
pub(super) struct Slot {
    pub(super) shared: Arc<Shared>,
    pub(super) requests: Arc<Requests>,
    /// The age that the connection may reach, if that is limited.
    pub(super) max_age: Option<Duration>,
    has_ended: bool,
}

impl Slot {
    pub(super) fn open(shared: &Arc<Shared>) -> Result<Self, OpenError> {
        let max_age = shared.open()?;
        Ok(Self {
            shared: shared.clone(),
            requests: Arc::new(Requests::new()),
            max_age,
            has_ended: false,
        })
    }

    /// Counts the end.
    pub(super) fn end<E>(&mut self, ended: &Ended<E>) {
        self.has_ended = true;
        self.shared.close(Some(ended));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.has_ended {
            self.shared.close::<Infallible>(None);
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (in_flight, _) = self.requests.in_flight();
        f.debug_struct("Slot")
            .field("age", &self.requests.opened().elapsed())
            .field("in_flight", &in_flight)
            .finish_non_exhaustive()
    }
}

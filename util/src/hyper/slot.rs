//! The state of one connection: its requests, its maximum age, and whether its end was counted.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use super::{ended::Ended, error::OpenError, requests::Requests, shared::Shared};

/// One connection of a server, from its opening to its end.
///
/// The end of a connection is counted exactly once. Either [`end`](Slot::end) counts the end, or the drop of
/// the slot counts the end.
pub(super) struct Slot {
    pub(super) shared: Arc<Shared>,
    pub(super) requests: Arc<Requests>,
    /// The maximum age of the connection, if the age is limited.
    pub(super) max_age: Option<Duration>,
    /// Whether the end of the connection was counted.
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

    /// Counts the end of the connection.
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

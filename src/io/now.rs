//! The present, read once.

use tokio::time::Instant;

/// The present, read when it is first asked for.
#[derive(Default)]
pub(super) struct Now(Option<Instant>);

impl Now {
    #[inline]
    pub(super) fn get(&mut self) -> Instant {
        *self.0.get_or_insert_with(Instant::now)
    }
}

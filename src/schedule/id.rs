//! What links the handle of a scheduled task to what a shutdown returns of it.

use std::fmt;

use crate::ground::thread;

/// Identifies a scheduled task: its [`ScheduledTask`](super::ScheduledTask) and the
/// [`Unstarted`](super::Unstarted) that a shutdown returns of it have the same.
///
/// No two tasks of a process have the same id, on whatever timers they are, unless 2⁴⁸ of them
/// were scheduled in between. Ids tell nothing about the order in which tasks were scheduled.
///
/// # Examples
///
/// ```
/// use std::collections::HashMap;
/// use tokio_wheel::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::builder().build()?;
/// let mut names = HashMap::new();
/// for (name, delay) in [("report", 60), ("backup", 30)] {
///     let task = timer.schedule(Duration::from_secs(delay), async {})?;
///     names.insert(task.id(), name);
/// }
///
/// let left = timer.shutdown();
/// let left: Vec<_> = left.iter().map(|task| names[&task.id()]).collect();
/// assert_eq!(left, ["backup", "report"]);
/// # Ok(())
/// # }
/// ```
// As bytes it fits beside the flags of an entry, where otherwise nothing would be: it costs no
// memory (`schedule::memory`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id([u8; 6]);

impl Id {
    /// The id of a new task.
    pub(super) fn next() -> Self {
        let [a, b, c, d, e, f, ..] = thread::unique().to_le_bytes();
        Self([a, b, c, d, e, f])
    }

    fn number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Id").field(&self.number()).finish()
    }
}

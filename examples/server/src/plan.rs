//! Says how many clients connect, what each client does, and when.

use std::time::Duration;

use tokio::time::Instant;

use crate::server::Limits;

/// How long the storm lasts. A round trip belongs to the storm if its message was on its way then.
pub(crate) const STORM: Duration = Duration::from_millis(100);

/// The plan of a run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// How many of the clients talk until the end.
    pub(crate) active: usize,
    /// The number of sessions without a socket.
    pub(crate) sessions: usize,
    /// How long to measure before the idle clients send their last message.
    pub(crate) calm: Duration,
    /// How long a client waits between a reply and its next message.
    pub(crate) think: Duration,
    pub(crate) limits: Limits,
}

/// What a client does.
pub(crate) enum Role {
    /// It talks until the end.
    Talks,
    /// It talks for the time `after`. Then it falls silent, and the server must close the
    /// connection.
    FallsSilent { after: Duration },
    /// It is idle until the storm, in which the server must close the connection.
    Idles,
}

/// The instants at which the parts of a run begin.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    /// The instant at which the clients begin and the measurement starts.
    pub(crate) start: Instant,
    /// The instant at which the measurement of the calm ends and all idle clients send their last
    /// message.
    pub(crate) herd: Instant,
    /// The instant at which all sessions and all idle connections expire: one idle limit after
    /// `herd`.
    pub(crate) storm: Instant,
}

impl Plan {
    /// Returns the number of clients that fall silent one by one: a fifth of those that do not talk.
    pub(crate) fn silent(&self) -> usize {
        (self.connections - self.active) / 5
    }

    /// Returns the number of clients whose connections expire all at once.
    pub(crate) fn idle(&self) -> usize {
        self.connections - self.active - self.silent()
    }

    /// Returns whether anything expires in the storm.
    pub(crate) fn storms(&self) -> bool {
        self.idle() + self.sessions > 0
    }

    /// Returns how long client `number` waits before it begins, at most `pause`. The clients begin
    /// one after the other, so their messages do not all arrive at once.
    pub(crate) fn share_of(&self, number: usize, pause: Duration) -> Duration {
        pause.mul_f64(number as f64 / self.connections as f64)
    }

    /// Returns what client `number` does. Each role is spread evenly over the clients.
    pub(crate) fn role(&self, number: usize) -> Role {
        let resting = self.connections - self.active;
        let Some(resting_before) = picked(number, resting, self.connections) else {
            return Role::Talks;
        };
        let Some(silent_before) = picked(resting_before, self.silent(), resting) else {
            return Role::Idles;
        };
        // The clients fall silent evenly over the calm, except at its end. The server needs the end
        // to close them.
        let slack = (self.calm / 10).min(Duration::from_secs(1));
        let window = self.calm.saturating_sub(self.limits.idle + slack);
        Role::FallsSilent {
            after: window.mul_f64((silent_before as f64 + 0.5) / self.silent() as f64),
        }
    }
}

/// Picks `some` of `all` numbers evenly. Returns how many numbers below `number` are picked, or
/// `None` if `number` is not picked.
fn picked(number: usize, some: usize, all: usize) -> Option<usize> {
    let before = number * some / all;
    let with_it = (number + 1) * some / all;
    (with_it > before).then_some(before)
}

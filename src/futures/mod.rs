//! Floor 3: the futures that wait for a deadline.

#[cfg(feature = "stream")]
mod ext;
pub(crate) mod interval;
mod sleep;
pub(crate) mod tick_sleep;
mod timeout;

#[cfg(feature = "stream")]
pub use ext::FutureExt;
pub use interval::{Interval, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Timeout, timeout, timeout_at};

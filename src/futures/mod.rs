//! Layer 3: the futures that wait for a deadline.

mod ext;
mod interval;
mod registration;
mod sleep;
mod timeout;

pub use ext::FutureExt;
pub use interval::{Interval, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Timeout, timeout, timeout_at};

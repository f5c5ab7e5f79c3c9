//! All forms of `use` items and paths that name `tokio::time`.

use std::future::pending;

pub mod one_name_or_item {
    use tokio_wheel as time;
    use tokio_wheel as clock;
    use tokio_wheel::sleep;
    use ::tokio_wheel::Sleep;
    use tokio_wheel::sleep as nap;
    use tokio_wheel::Sleep as Nap;
    pub fn made() -> time::Sleep { time::sleep(time::Duration::ZERO) }
}
pub mod itself_and_items {
    use tokio_wheel::{self as time, Duration, Instant};
    pub fn made(at: Instant) -> time::Sleep { time::sleep_until(at + Duration::ZERO) }
}
pub mod itself_and_errors {
    use tokio_wheel as time;
    use tokio_wheel::{self as clock, sleep_until as until, Instant as Moment};
    use tokio_wheel::error::Elapsed;
    pub fn text(error: Elapsed) -> String { error.to_string() }
    use tokio::time::error::Error;
use tokio_wheel::error::Elapsed as Late;
    use tokio::time::error::Error as TimeError;
    pub type Errors = (Late, Error, TimeError, tokio::time::error::Error);
}
pub mod errors_in_a_list {
    use tokio::time::error::Error;
use tokio_wheel::{error, error::Elapsed, timeout, Timeout};
    pub type Errors = (Elapsed, Error, error::Elapsed);
    pub fn made() -> Timeout<std::future::Pending<()>> { timeout(super::ZERO, super::pending()) }
}
pub mod nested {
    use tokio::{net::{TcpListener, TcpStream}, sync::mpsc};
use tokio_wheel::{self as time, Duration, Instant};
    pub type Kept = (TcpListener, TcpStream, mpsc::Sender<()>);
    pub fn made(at: Instant) -> time::Sleep { time::sleep_until(at + Duration::ZERO) }
}
pub mod nested_over_lines {
    use tokio::{net::TcpListener, time::error::Error};
use tokio_wheel::{self as time, error::Elapsed, Duration};
    pub type Kept = (TcpListener, Error);
    pub type Late = Elapsed;
    pub fn made() -> time::Sleep { time::sleep(Duration::ZERO) }
}
pub mod nested_first {
    use tokio::{sync::{mpsc, oneshot}};
use tokio_wheel as time;
    pub type Kept = (mpsc::Sender<()>, oneshot::Sender<()>);
}
pub mod nested_renamed {
    use tokio::{io::{self, AsyncReadExt}};
use tokio_wheel as clock;
    pub async fn kept(mut input: io::Empty) { input.read_u8().await.unwrap(); }
}
pub mod nested_with_the_crate {
    use tokio::{self};
use tokio_wheel as time;
    pub fn kept() -> tokio::sync::Notify { tokio::sync::Notify::new() }
}
pub mod nested_alone {
    use tokio_wheel as time;
}
pub mod visible {
    pub use tokio_wheel as time;
    pub(crate) use tokio::sync;
pub(crate) use tokio_wheel::Interval;
    pub(in super::super) use ::tokio::task;
pub(in super::super) use ::tokio_wheel::interval;
    pub type Kept = (sync::Notify, task::JoinHandle<()>);
    pub fn made() -> Interval { interval(time::Duration::from_secs(1)) }
}
pub mod with_attributes {
    #[cfg(any())]
    #[rustfmt::skip]
    use tokio::nonsense;
#[cfg(any())]
    #[rustfmt::skip]
    use tokio_wheel::sleep;
    #[cfg(test)]
    use tokio::sync::Notify;
#[cfg(test)]
    use tokio_wheel::Sleep;
    #[cfg(test)]
    pub type Both = (Notify, Sleep);
    #[cfg(any())] // Only there.
    use tokio::nonsense;
#[cfg(any())] // Only there.
    use tokio_wheel::sleep;
    #[cfg_attr(any(), allow(unused, reason = "see [1]"))]
    /* Both. */
    pub(crate) use tokio::sync::Notify as Bell;
#[cfg_attr(any(), allow(unused, reason = "see [1]"))]
    /* Both. */
    pub(crate) use tokio_wheel::Sleep as Nap;
}
pub mod in_a_function {
    pub async fn made() {
        use tokio::task;
use tokio_wheel::{sleep, timeout_at};
        task::yield_now().await;
        timeout_at(tokio_wheel::Instant::now(), sleep(super::ZERO)).await.unwrap();
    }
}
pub mod in_paths {
    pub struct Held { pub sleep: std::pin::Pin<Box<tokio_wheel::Sleep>> }
    pub fn made() -> Held { Held { sleep: Box::pin(::tokio_wheel::sleep(tokio_wheel::Duration::ZERO)) } }
    pub async fn waits() -> Result<(), tokio_wheel::error::Elapsed> {
        tokio::select! {
            () = tokio_wheel::sleep_until(tokio_wheel::Instant::now()) => {}
            late = tokio_wheel::timeout(super::ZERO, super::pending()) => late?,
        }
        let functions: [fn(std::time::Duration) -> tokio_wheel::Interval; 1] = [tokio_wheel::interval];
        functions[0](tokio_wheel::Duration::from_secs(1)).tick().await;
        Ok(())
    }
}
macro_rules! sleeps {
    () => { tokio_wheel::sleep(std::time::Duration::ZERO) };
}
pub mod in_macros {
    pub fn made() -> tokio_wheel::Sleep { sleeps!() }
}
pub mod in_attributes {
    #[tokio::main(flavor = "current_thread", start_paused = true)]
    pub async fn waits() { tokio_wheel::sleep(super::ZERO).await }
}
/// The script does not change comments. So `use tokio::time;` and tokio::time::sleep stay.
pub mod left_alone {
    // use tokio::time;
    /* use tokio::time; /* tokio::time::sleep */ use tokio::time; */
    pub const STRINGS: [&str; 4] = [
        "use tokio::time; \" tokio::time::sleep",
        r"tokio::time::sleep \",
        r#"tokio::time::sleep " use tokio::time;"#,
        "\
        use tokio::time;",
    ];
    pub const BYTES: &[u8] = b"tokio::time::sleep";
    pub const QUOTES: [char; 2] = ['"', '\"'];
    pub fn after_quotes<'a>(_: &'a str) -> tokio_wheel::Sleep { tokio_wheel::sleep(super::ZERO) }
    pub mod other { pub use tokio; }
    pub fn of_another() -> other::tokio::time::Sleep { self::other::tokio::time::sleep(super::ZERO) }
    use tokio::{
        // The script does not change a list with a comment.
        time,
    };
    pub fn with_a_comment() -> time::Sleep { time::sleep(super::ZERO) }
}
const ZERO: std::time::Duration = std::time::Duration::ZERO;

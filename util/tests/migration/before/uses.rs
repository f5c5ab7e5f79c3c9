//! All forms of `use` items and paths that name `tokio::time`.

use std::future::pending;

pub mod one_name_or_item {
    use tokio::time;
    use tokio::time as clock;
    use tokio::time::sleep;
    use ::tokio::time::Sleep;
    use tokio::time::sleep as nap;
    use tokio::time::Sleep as Nap;
    pub fn made() -> time::Sleep { time::sleep(time::Duration::ZERO) }
}
pub mod itself_and_items {
    use tokio::time::{self, Duration, Instant};
    pub fn made(at: Instant) -> time::Sleep { time::sleep_until(at + Duration::ZERO) }
}
pub mod itself_and_errors {
    use tokio::time::{self};
    use tokio::time::{self as clock, sleep_until as until, Instant as Moment,};
    use tokio::time::error::Elapsed;
    pub fn text(error: Elapsed) -> String { error.to_string() }
    use tokio::time::error::{Elapsed as Late, Error};
    use tokio::time::error::Error as TimeError;
    pub type Errors = (Late, Error, TimeError, tokio::time::error::Error);
}
pub mod errors_in_a_list {
    use tokio::time::{error::{self, Elapsed, Error}, timeout, Timeout};
    pub type Errors = (Elapsed, Error, error::Elapsed);
    pub fn made() -> Timeout<std::future::Pending<()>> { timeout(super::ZERO, super::pending()) }
}
pub mod nested {
    use tokio::{net::{TcpListener, TcpStream}, time::{self, Duration, Instant}, sync::mpsc};
    pub type Kept = (TcpListener, TcpStream, mpsc::Sender<()>);
    pub fn made(at: Instant) -> time::Sleep { time::sleep_until(at + Duration::ZERO) }
}
pub mod nested_over_lines {
    use tokio::{
        net::TcpListener,
        time::{
            self,
            error::{Elapsed, Error},
            Duration,
        },
    };
    pub type Kept = (TcpListener, Error);
    pub type Late = Elapsed;
    pub fn made() -> time::Sleep { time::sleep(Duration::ZERO) }
}
pub mod nested_first {
    use tokio::{time, sync::{mpsc, oneshot}};
    pub type Kept = (mpsc::Sender<()>, oneshot::Sender<()>);
}
pub mod nested_renamed {
    use tokio::{time as clock, io::{self, AsyncReadExt}};
    pub async fn kept(mut input: io::Empty) { input.read_u8().await.unwrap(); }
}
pub mod nested_with_the_crate {
    use tokio::{self, time};
    pub fn kept() -> tokio::sync::Notify { tokio::sync::Notify::new() }
}
pub mod nested_alone {
    use tokio::{time};
}
pub mod visible {
    pub use tokio::time;
    pub(crate) use tokio::{sync, time::Interval};
    pub(in super::super) use ::tokio::{task, time::interval};
    pub type Kept = (sync::Notify, task::JoinHandle<()>);
    pub fn made() -> Interval { interval(time::Duration::from_secs(1)) }
}
pub mod with_attributes {
    #[cfg(any())]
    #[rustfmt::skip]
    use tokio::{nonsense, time::sleep};
    #[cfg(test)]
    use tokio::{sync::Notify, time::Sleep};
    #[cfg(test)]
    pub type Both = (Notify, Sleep);
    #[cfg(any())] // Only there.
    use tokio::{nonsense, time::sleep};
    #[cfg_attr(any(), allow(unused, reason = "see [1]"))]
    /* Both. */
    pub(crate) use tokio::{sync::Notify as Bell, time::Sleep as Nap};
}
pub mod in_a_function {
    pub async fn made() {
        use tokio::{task, time::{sleep, timeout_at}};
        task::yield_now().await;
        timeout_at(tokio::time::Instant::now(), sleep(super::ZERO)).await.unwrap();
    }
}
pub mod in_paths {
    pub struct Held { pub sleep: std::pin::Pin<Box<tokio::time::Sleep>> }
    pub fn made() -> Held { Held { sleep: Box::pin(::tokio::time::sleep(tokio::time::Duration::ZERO)) } }
    pub async fn waits() -> Result<(), tokio::time::error::Elapsed> {
        tokio::select! {
            () = tokio::time::sleep_until(tokio::time::Instant::now()) => {}
            late = tokio::time::timeout(super::ZERO, super::pending()) => late?,
        }
        let functions: [fn(std::time::Duration) -> tokio::time::Interval; 1] = [tokio::time::interval];
        functions[0](tokio::time::Duration::from_secs(1)).tick().await;
        Ok(())
    }
}
macro_rules! sleeps {
    () => { tokio::time::sleep(std::time::Duration::ZERO) };
}
pub mod in_macros {
    pub fn made() -> tokio::time::Sleep { sleeps!() }
}
pub mod in_attributes {
    #[tokio::main(flavor = "current_thread", start_paused = true)]
    pub async fn waits() { tokio::time::sleep(super::ZERO).await }
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
    pub fn after_quotes<'a>(_: &'a str) -> tokio::time::Sleep { tokio::time::sleep(super::ZERO) }
    pub mod other { pub use tokio; }
    pub fn of_another() -> other::tokio::time::Sleep { self::other::tokio::time::sleep(super::ZERO) }
    use tokio::{
        // The script does not change a list with a comment.
        time,
    };
    pub fn with_a_comment() -> time::Sleep { time::sleep(super::ZERO) }
}
const ZERO: std::time::Duration = std::time::Duration::ZERO;

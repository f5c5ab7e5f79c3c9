//! Puts the compared timers behind traits, which the compiler inlines.

use std::{
    convert::Infallible,
    env,
    future::{Future, Pending, pending},
    path::PathBuf,
    pin::Pin,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures_lite::future::or;
use futures_util::FutureExt;
use tokio_wheel::Timer;
use tokio_wheel_util::deadline::{Exceeded, within};

pub trait Peer: 'static {
    /// The name of the peer in tables and on the command line.
    const NAME: &'static str;

    type Elapsed: Send;

    /// Prepares a runtime for this peer. It is called once, within the runtime.
    fn install() {}

    fn timeout<F: Future + Send>(
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send;

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static;
}

pub trait Resets: Peer {
    type Sleep: Future + Send;

    fn new_sleep(duration: Duration) -> Self::Sleep;

    /// Sets the deadline to `duration` from now. Each peer reads the clock once for that.
    fn reset(sleep: Pin<&mut Self::Sleep>, duration: Duration);
}

/// Makes a type for each timer: name, error, `timeout`, `sleep`, and what prepares a runtime for it.
macro_rules! peers {
    ($($(#[$doc:meta])* $Peer:ident, $name:literal, $Elapsed:ty, $timeout:expr, $sleep:expr
        $(, $install:expr)?;)+) => {
        $(
            $(#[$doc])*
            pub struct $Peer;

            impl Peer for $Peer {
                const NAME: &'static str = $name;
                type Elapsed = $Elapsed;

                $(fn install() {
                    $install
                })?

                fn timeout<F: Future + Send>(
                    limit: Duration,
                    future: F,
                ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
                    $timeout(limit, future)
                }

                fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static {
                    $sleep(duration)
                }
            }
        )+
    };
}

peers! {
    /// No timer at all. It shows the cost of a workload by itself.
    Bare, "bare", Infallible, |_, future: F| future.map(Ok), |_| pending();
    TokioWheel, "tokio_wheel", tokio_wheel::error::Elapsed, tokio_wheel::timeout, tokio_wheel::sleep;
    /// The limit that travels, on the same timer.
    Within, "within", Exceeded, within, tokio_wheel::sleep;
    /// The crate of this workspace on a timerfd.
    TokioWheelHigh, "tokio_wheel_high", tokio_wheel::error::Elapsed, tokio_wheel::timeout,
        tokio_wheel::sleep, drop(Timer::builder().high_resolution().install().expect("no timer"));
    Tokio, "tokio", tokio::time::error::Elapsed, tokio::time::timeout, tokio::time::sleep;
    /// `tokio-hrtime`: a timerfd for each sleep.
    TokioHrtime, "tokio_hrtime", tokio_hrtime::error::Elapsed, tokio_hrtime::timeout,
        tokio_hrtime::sleep;
    /// tokio's alternative timer, on a runtime of its own kind.
    TokioAlt, "tokio_alt", tokio::time::error::Elapsed, tokio::time::timeout, tokio::time::sleep;
    /// The fast half of `pingora-timeout`: 10 ms slots, one tree per thread, and entries that stay until they expire.
    Pingora, "pingora", pingora_timeout::Elapsed, pingora_timeout::fast_timeout::fast_timeout,
        pingora_timeout::fast_timeout::fast_sleep;
    /// `futures-timer`: a heap on a thread of its own. It has no timeout, so this peer composes one.
    FuturesTimer, "futures_timer", (),
        |limit, future: F| or(future.map(Ok), Self::sleep(limit).map(Err)),
        futures_timer::Delay::new;
    /// `async-io`: a tree behind the reactor's own thread. It has no timeout either.
    AsyncIo, "async_io", (),
        |limit, future: F| or(future.map(Ok), Self::sleep(limit).map(Err)),
        |duration| async_io::Timer::after(duration).map(|_: Instant| ());
}

macro_rules! resets {
    ($($Peer:ident, $Sleep:ty, $new:expr, $reset:expr;)+) => {
        $(impl Resets for $Peer {
            type Sleep = $Sleep;

            fn new_sleep(duration: Duration) -> Self::Sleep {
                $new(duration)
            }

            fn reset(sleep: Pin<&mut Self::Sleep>, duration: Duration) {
                $reset(sleep, duration);
            }
        })+
    };
}

resets! {
    Bare, Pending<()>, |_| pending(), |_, _| ();
    TokioWheel, tokio_wheel::Sleep, tokio_wheel::sleep,
        |sleep: Pin<&mut Self::Sleep>, duration| sleep.reset(tokio_wheel::Instant::now() + duration);
    Tokio, tokio::time::Sleep, tokio::time::sleep,
        |sleep: Pin<&mut Self::Sleep>, duration| sleep.reset(tokio::time::Instant::now() + duration);
    TokioAlt, tokio::time::Sleep, tokio::time::sleep, <Tokio as Resets>::reset;
    FuturesTimer, futures_timer::Delay, futures_timer::Delay::new,
        |mut sleep: Pin<&mut Self::Sleep>, duration| sleep.reset(duration);
    AsyncIo, async_io::Timer, async_io::Timer::after,
        |mut sleep: Pin<&mut Self::Sleep>, duration| sleep.set_after(duration);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum PeerKind {
    TokioWheel,
    Within,
    Tokio,
    Pingora,
    FuturesTimer,
    AsyncIo,
    TokioWheelHigh,
    TokioHrtime,
    TokioAlt,
    /// `std::thread::sleep`, on as many threads as the other timers have tasks.
    Thread,
}

/// Evaluates an expression with a type alias bound to the chosen peer.
#[macro_export]
macro_rules! with_peer {
    ($kind:expr, $P:ident => $body:expr) => {
        $crate::with_peer!(@arms $kind, $P, $body;
            TokioWheel, Within, Tokio, Pingora, FuturesTimer, AsyncIo, TokioWheelHigh, TokioHrtime, TokioAlt)
    };
    (@arms $kind:expr, $P:ident, $body:expr; $($peer:ident),+) => {
        match $kind {
            $($crate::peer::PeerKind::$peer => {
                type $P = $crate::peer::$peer;
                $body
            })+
            $crate::peer::PeerKind::Thread => unreachable!("a thread takes part in `lateness` only"),
        }
    };
}

impl PeerKind {
    /// The timers that can do everything in each build. No process may open 200,000 descriptors or
    /// threads, so most others take part in `lateness` only.
    pub const ALL: [Self; 5] = [
        Self::TokioWheel,
        Self::Tokio,
        Self::Pingora,
        Self::FuturesTimer,
        Self::AsyncIo,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            _ => with_peer!(self, P => P::NAME),
        }
    }
}

/// How to get the build of a program that has [`TokioAlt`].
pub const BUILD_ALTERNATIVE: &str = "\
    tokio's alternative timer takes part if it was built before, because it needs tokio_unstable:\n\
    RUSTFLAGS=\"--cfg tokio_unstable\" cargo build --release -p tokio-wheel-benches --target-dir target/alt";

/// Returns the build of this program that has [`TokioAlt`], if it exists. It has the same profile,
/// because a debug build says nothing beside a release build.
pub fn alternative() -> Option<PathBuf> {
    let this = env::current_exe().ok()?;
    if cfg!(tokio_unstable) {
        return Some(this);
    }
    let profile = this.parent()?;
    let alternative = profile.parent()?.join("alt").join(profile.file_name()?);
    let other = alternative.join(this.file_name()?);
    other.exists().then_some(other)
}

pub fn program_for(peer: &str) -> anyhow::Result<PathBuf> {
    match peer {
        TokioAlt::NAME => alternative().context(BUILD_ALTERNATIVE),
        _ => Ok(env::current_exe()?),
    }
}

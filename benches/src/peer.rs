//! Puts the compared timers behind traits, which the compiler inlines.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    time::{Duration, Instant},
};

use futures_lite::future::or;
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use tokio::runtime;
use tokio_wheel::Timer;

/// A timer that limits how long a future may take.
pub trait Timeouts: 'static {
    /// The name of the peer in tables and benchmark ids.
    const NAME: &'static str;

    /// The error of a future that took too long.
    type Elapsed;

    /// Configures a runtime's builder for this peer.
    fn configure(_: &mut runtime::Builder) {}

    /// Prepares a runtime for this peer. It is called once, within the runtime.
    fn install() {}

    /// The peer's `timeout`.
    fn timeout<F: Future + Send>(
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send;
}

/// A timer that can also sleep. All peers are such timers.
pub trait Peer: Timeouts {
    /// The peer's `sleep`.
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static;
}

/// A timer whose pending sleep can get another deadline.
pub trait Resets: Timeouts {
    /// The type of a sleep, which `reset` takes.
    type Sleep: Future + Send;

    /// The peer's `sleep`.
    fn new_sleep(duration: Duration) -> Self::Sleep;

    /// Sets the deadline to `duration` from now. Each peer reads the clock once for that.
    fn reset(sleep: Pin<&mut Self::Sleep>, duration: Duration);
}

/// Evaluates an expression with a type alias bound to the chosen peer.
#[macro_export]
macro_rules! with_peer {
    ($kind:expr, $P:ident => $body:expr) => {
        $crate::with_peer!(@arms $kind, $P, $body;
            TokioWheel, Tokio, Pingora, FuturesTimer, AsyncIo)
    };
    (@arms $kind:expr, $P:ident, $body:expr; $($peer:ident),+) => {
        match $kind {
            $($crate::peer::PeerKind::$peer => {
                type $P = $crate::peer::$peer;
                $body
            })+
            #[cfg(tokio_unstable)]
            $crate::peer::PeerKind::TokioAlternative => {
                type $P = $crate::peer::TokioAlternative;
                $body
            }
        }
    };
}

/// No timer at all. It shows the cost of a workload by itself.
pub struct Bare;

impl Timeouts for Bare {
    const NAME: &'static str = "bare";
    type Elapsed = Infallible;

    fn timeout<F: Future + Send>(
        _: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Infallible>> + Send {
        future.map(Ok)
    }
}

impl Peer for Bare {
    fn sleep(_: Duration) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }
}

/// Implements the traits for the crate of this workspace, on the installed timer.
macro_rules! tokio_wheel {
    ($(#[$doc:meta])* $Peer:ident, $name:literal, $($install:item)?) => {
        $(#[$doc])*
        pub struct $Peer;

        impl Timeouts for $Peer {
            const NAME: &'static str = $name;
            type Elapsed = tokio_wheel::error::Elapsed;

            $($install)?

            fn timeout<F: Future + Send>(
                limit: Duration,
                future: F,
            ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
                tokio_wheel::timeout(limit, future)
            }
        }

        impl Peer for $Peer {
            fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static {
                tokio_wheel::sleep(duration)
            }
        }
    };
}

tokio_wheel! {
    /// The crate of this workspace.
    TokioWheel, "tokio_wheel",
}

tokio_wheel! {
    /// The crate of this workspace on a timerfd.
    TokioWheelHighResolution, "tokio_wheel_high",
    fn install() {
        install(Timer::builder().high_resolution());
    }
}

/// Installs the default timer, which the free functions use.
fn install(builder: tokio_wheel::Builder) {
    builder.install().expect("cannot build the timer");
}

impl Resets for TokioWheel {
    type Sleep = tokio_wheel::Sleep;

    fn new_sleep(duration: Duration) -> Self::Sleep {
        tokio_wheel::sleep(duration)
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, duration: Duration) {
        sleep.reset(tokio_wheel::Instant::now() + duration);
    }
}

/// Implements the traits for `tokio::time`, on the configured timer.
macro_rules! tokio {
    ($(#[$doc:meta])* $Peer:ident, $name:literal, $($configure:item)?) => {
        $(#[$doc])*
        pub struct $Peer;

        impl Timeouts for $Peer {
            const NAME: &'static str = $name;
            type Elapsed = tokio::time::error::Elapsed;

            $($configure)?

            fn timeout<F: Future + Send>(
                limit: Duration,
                future: F,
            ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
                tokio::time::timeout(limit, future)
            }
        }

        impl Peer for $Peer {
            fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static {
                tokio::time::sleep(duration)
            }
        }

        impl Resets for $Peer {
            type Sleep = tokio::time::Sleep;

            fn new_sleep(duration: Duration) -> Self::Sleep {
                tokio::time::sleep(duration)
            }

            fn reset(sleep: Pin<&mut Self::Sleep>, duration: Duration) {
                sleep.reset(tokio::time::Instant::now() + duration);
            }
        }
    };
}

tokio! {
    /// `tokio::time`, which tokio-wheel replaces.
    Tokio, "tokio",
}

#[cfg(tokio_unstable)]
mod alternative {
    use super::*;

    tokio! {
        /// `tokio::time` with the timer that may replace tokio's own timer one day. That timer has
        /// a wheel for each worker.
        TokioAlternative, "tokio_alternative",
        fn configure(builder: &mut runtime::Builder) {
            builder.enable_alt_timer();
        }
    }
}
#[cfg(tokio_unstable)]
pub use alternative::TokioAlternative;

/// `tokio-hrtime`: a timerfd for each sleep. `PeerKind` leaves it out, because no process may open
/// 200,000 descriptors.
pub struct TokioHrtime;

impl Timeouts for TokioHrtime {
    const NAME: &'static str = "tokio_hrtime";
    type Elapsed = tokio_hrtime::error::Elapsed;

    fn timeout<F: Future + Send>(
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        tokio_hrtime::timeout(limit, future)
    }
}

impl Peer for TokioHrtime {
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        tokio_hrtime::sleep(duration)
    }
}

/// The fast half of `pingora-timeout`: 10 ms slots, one tree per thread, and entries that stay
/// until they expire.
pub struct Pingora;

impl Timeouts for Pingora {
    const NAME: &'static str = "pingora";
    type Elapsed = pingora_timeout::Elapsed;

    fn timeout<F: Future + Send>(
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        pingora_timeout::fast_timeout::fast_timeout(limit, future)
    }
}

impl Peer for Pingora {
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        pingora_timeout::fast_timeout::fast_sleep(duration)
    }
}

/// `futures-timer`: a heap on a thread of its own. It has no timeout, so this peer composes one.
pub struct FuturesTimer;

impl Timeouts for FuturesTimer {
    const NAME: &'static str = "futures_timer";
    type Elapsed = ();

    fn timeout<F: Future + Send>(
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, ()>> + Send {
        or(future.map(Ok), Self::sleep(limit).map(Err))
    }
}

impl Peer for FuturesTimer {
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        futures_timer::Delay::new(duration)
    }
}

impl Resets for FuturesTimer {
    type Sleep = futures_timer::Delay;

    fn new_sleep(duration: Duration) -> Self::Sleep {
        futures_timer::Delay::new(duration)
    }

    fn reset(mut sleep: Pin<&mut Self::Sleep>, duration: Duration) {
        sleep.reset(duration);
    }
}

/// `async-io`: a tree behind the reactor's own thread. It has no timeout, so this peer composes
/// one.
pub struct AsyncIo;

impl Timeouts for AsyncIo {
    const NAME: &'static str = "async_io";
    type Elapsed = ();

    fn timeout<F: Future + Send>(
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, ()>> + Send {
        or(future.map(Ok), Self::sleep(limit).map(Err))
    }
}

impl Peer for AsyncIo {
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        async_io::Timer::after(duration).map(|_: Instant| ())
    }
}

impl Resets for AsyncIo {
    type Sleep = async_io::Timer;

    fn new_sleep(duration: Duration) -> Self::Sleep {
        async_io::Timer::after(duration)
    }

    fn reset(mut sleep: Pin<&mut Self::Sleep>, duration: Duration) {
        sleep.set_after(duration);
    }
}

/// The peers that the command line offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "named like the types above")]
pub enum PeerKind {
    TokioWheel,
    Tokio,
    Pingora,
    FuturesTimer,
    AsyncIo,
    #[cfg(tokio_unstable)]
    TokioAlternative,
}

impl PeerKind {
    /// Returns the peer's [`NAME`](Timeouts::NAME), which is also its name on the command line.
    pub fn name(self) -> &'static str {
        with_peer!(self, P => P::NAME)
    }
}

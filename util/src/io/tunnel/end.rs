//! How a tunnel ends: [`TunnelEnd`], its [`TunnelReason`], and the [`Side`] that failed.

use std::io;

/// The end of a tunnel: what it has copied, and why it has ended.
///
/// # Examples
///
/// Unlike [`tokio::io::copy_bidirectional`](https://docs.rs/tokio/latest/tokio/io/fn.copy_bidirectional.html), a tunnel
/// that fails has its counts. A program that wants a [`Result`] matches on the reason:
///
/// ```
/// use std::io;
///
/// use tokio_wheel_util::io::{TunnelEnd, TunnelReason};
///
/// fn to_result(end: TunnelEnd) -> io::Result<(u64, u64)> {
///     match end.reason {
///         TunnelReason::Closed => Ok((end.a_to_b, end.b_to_a)),
///         TunnelReason::Failed { error, .. } => Err(error),
///         _ => Err(io::ErrorKind::TimedOut.into()),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let end = tokio_wheel_util::io::tunnel(tokio::io::empty(), tokio::io::empty()).await;
/// assert_eq!(to_result(end).unwrap(), (0, 0));
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct TunnelEnd {
    /// How many bytes `b` has accepted from `a`.
    pub a_to_b: u64,
    /// How many bytes `a` has accepted from `b`.
    pub b_to_a: u64,
    /// Why the tunnel has ended.
    pub reason: TunnelReason,
}

/// Why a tunnel has ended.
///
/// # Examples
///
/// ```
/// use tokio_test::io::Builder;
/// use tokio_wheel_util::io::{Side, TunnelReason, tunnel};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let reset = std::io::ErrorKind::ConnectionReset;
/// let client = Builder::new().read(b"hello").read_error(reset.into()).build();
/// let server = Builder::new().write(b"hello").build();
/// let end = tunnel(client, server).await;
/// assert_eq!(end.a_to_b, 5);
/// let TunnelReason::Failed { side, error } = end.reason else {
///     panic!("{:?}", end.reason);
/// };
/// assert_eq!((side, error.kind()), (Side::A, reset));
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TunnelReason {
    /// Both streams have ended, and all bytes are copied.
    Closed,
    /// No byte moved for as long as [`Tunnel::idle`](super::Tunnel::idle) allows.
    Idle,
    /// After the end of one stream, no byte moved for as long as [`Tunnel::half_close`](super::Tunnel::half_close) allows.
    HalfClosed,
    /// A stream has failed.
    Failed {
        /// The stream that failed.
        side: Side,
        /// The error of its read, write, flush or shutdown.
        error: io::Error,
    },
}

/// One of the two streams of a [`tunnel`](super::tunnel()).
///
/// # Examples
///
/// ```
/// use tokio_wheel_util::io::Side;
///
/// assert_ne!(Side::A, Side::B);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first argument of [`tunnel`](super::tunnel()).
    A,
    /// The second argument of [`tunnel`](super::tunnel()).
    B,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

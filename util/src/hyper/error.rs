//! The error of a server that cannot open a connection.

use std::{error::Error, fmt};

/// The error of [`Connections::open`](super::Connections::open).
///
/// # Examples
///
/// ```
/// use tokio_wheel_util::hyper::{Connections, Limits};
///
/// let connections = Connections::new(Limits::new().max_connections(1));
/// let _first = connections.open().unwrap();
/// let error = connections.open().unwrap_err();
/// assert_eq!(error.to_string(), "cannot open a connection: at most 1 connections may be open, 1 are open");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The number of open connections has reached
    /// [`Limits::max_connections`](super::Limits::max_connections).
    #[non_exhaustive]
    Full {
        /// The number of open connections.
        open: usize,
        /// The largest number of connections that may be open.
        limit: usize,
    },
    /// [`Connections::shutdown`](super::Connections::shutdown) has begun.
    Shutdown,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { open, limit } => {
                write!(
                    f,
                    "cannot open a connection: at most {limit} connections may be open, {open} are open"
                )
            }
            Self::Shutdown => f.write_str("cannot open a connection: the server is shutting down"),
        }
    }
}

impl Error for OpenError {}

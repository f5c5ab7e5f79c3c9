//! Why a connection was not opened.

use std::{error::Error, fmt};

/// Why [`Connections::open`](super::Connections::open) has opened no connection.
///
/// # Examples
///
/// ```
/// use tokio_wheel::hyper::{Connections, Limits};
///
/// let connections = Connections::new(Limits::new().max_connections(1));
/// let _first = connections.open().unwrap();
/// let error = connections.open().unwrap_err();
/// assert_eq!(error.to_string(), "1 connections are open, at most 1 are allowed");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// As many connections are open as
    /// [`Limits::max_connections`](super::Limits::max_connections) allows.
    Full {
        /// How many are open.
        open: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// [`Connections::shutdown`](super::Connections::shutdown) was called.
    ShutDown,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { open, limit } => {
                write!(
                    f,
                    "{open} connections are open, at most {limit} are allowed"
                )
            }
            Self::ShutDown => f.write_str("a connection was opened after the shutdown began"),
        }
    }
}

impl Error for OpenError {}

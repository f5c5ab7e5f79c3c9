//! Errors that do not stop a server.

use std::{error::Error, fmt, io};

/// The closure that gets these errors.
pub(super) type Report = Box<dyn Fn(ServeError) + Send + Sync>;

/// An error that did not stop the [server](super::serve()), passed to [`Serve::on_error`](super::Serve::on_error).
///
/// # Examples
///
/// ```
/// use std::io;
/// use tokio_wheel_util::hyper::ServeError;
///
/// let error = ServeError::Accept(io::Error::other("no descriptors"));
/// assert_eq!(error.to_string(), "failed to accept a connection: no descriptors");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// [`Listener::accept`](super::Listener::accept) failed.
    Accept(io::Error),
    /// The [handshake](super::Serve::handshake) of a connection failed or took too long.
    Handshake(io::Error),
    /// A connection failed.
    Connection(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept(error) => write!(f, "failed to accept a connection: {error}"),
            Self::Handshake(error) => write!(f, "a handshake failed: {error}"),
            Self::Connection(error) => write!(f, "a connection failed: {error}"),
        }
    }
}

impl Error for ServeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The message contains the error itself.
        match self {
            Self::Accept(error) | Self::Handshake(error) => error.source(),
            Self::Connection(error) => error.source(),
        }
    }
}

//! Parses the header `grpc-timeout` and recognizes gRPC requests.
//!
//! The document "gRPC over HTTP2" in gRPC's repository specifies the header and the requests.

use std::{error::Error, fmt, time::Duration};

use http::{HeaderMap, header};

/// The header that contains the limit of a request.
const GRPC_TIMEOUT: &str = "grpc-timeout";

/// The number of digits that the specification allows.
const MAX_DIGITS: usize = 8;

/// The content types of gRPC, without suffixes like `+proto`.
const CONTENT_TYPES: [&str; 3] = [
    "application/grpc-web-text",
    "application/grpc-web",
    "application/grpc",
];

/// Parses the value of the header `grpc-timeout`.
///
/// A valid value has one to eight ASCII digits, and then one of these units:
///
/// | `H` | `M` | `S` | `m` | `u` | `n` |
/// |---|---|---|---|---|---|
/// | hours | minutes | seconds | milliseconds | microseconds | nanoseconds |
///
/// Zero is valid. For example, gRPC for Go sends `0n` when a deadline has passed.
///
/// # Errors
///
/// Returns a [`GrpcTimeoutError`] if the value is not valid.
///
/// # Examples
///
/// ```
/// use http::HeaderValue;
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::http::parse_grpc_timeout;
///
/// let value = HeaderValue::from_static("1500m");
/// assert_eq!(parse_grpc_timeout(&value), Ok(Duration::from_millis(1_500)));
///
/// let error = parse_grpc_timeout("soon").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "grpc-timeout must be 1 to 8 digits and one of H, M, S, m, u, n, got \"soon\""
/// );
/// ```
pub fn parse_grpc_timeout(value: impl AsRef<[u8]>) -> Result<Duration, GrpcTimeoutError> {
    let value = value.as_ref();
    parse(value).ok_or_else(|| GrpcTimeoutError {
        given: value.escape_ascii().to_string(),
    })
}

fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let amount = (digits.iter()).fold(0, |amount, digit| 10 * amount + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(3_600 * amount)),
        b'M' => Some(Duration::from_secs(60 * amount)),
        b'S' => Some(Duration::from_secs(amount)),
        b'm' => Some(Duration::from_millis(amount)),
        b'u' => Some(Duration::from_micros(amount)),
        b'n' => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

/// Returns the limit from the headers of a request. Returns `None` if the limit is missing or malformed.
pub(super) fn limit_in(headers: &HeaderMap) -> Option<Duration> {
    parse(headers.get(GRPC_TIMEOUT)?.as_bytes())
}

/// Returns the content type of a gRPC request without a suffix like `+proto`. Returns `None` for other
/// requests.
pub(super) fn content_type_in(headers: &HeaderMap) -> Option<&'static str> {
    let given = headers.get(header::CONTENT_TYPE)?.as_bytes();
    CONTENT_TYPES.into_iter().find(|known| {
        given
            .split_at_checked(known.len())
            .is_some_and(|(start, rest)| {
                let ends = matches!(rest.first(), None | Some(b'+' | b';' | b' '));
                ends && start.eq_ignore_ascii_case(known.as_bytes())
            })
    })
}

/// The error that [`parse_grpc_timeout`] returns for a malformed value.
///
/// # Examples
///
/// ```
/// use tokio_wheel_util::http::parse_grpc_timeout;
///
/// for malformed in ["", "S", "10", "+1S", "1 S", "1s", "123456789n"] {
///     let error = parse_grpc_timeout(malformed).unwrap_err();
///     assert!(error.to_string().ends_with(&format!("got \"{malformed}\"")));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcTimeoutError {
    /// The malformed value. Bytes outside printable ASCII are escaped.
    given: String,
}

impl fmt::Display for GrpcTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "grpc-timeout must be 1 to {MAX_DIGITS} digits and one of H, M, S, m, u, n, got \"{}\"",
            self.given
        )
    }
}

impl Error for GrpcTimeoutError {}

//! Parses and formats the header `grpc-timeout`, recognizes gRPC requests, and responds to late ones.
//!
//! The document "gRPC over HTTP2" in gRPC's repository specifies the header and the requests.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// The number of digits that the specification allows.
const MAX_DIGITS: usize = 8;

/// The largest number of so many digits.
const LARGEST: u128 = 99_999_999;

const SECOND: u128 = 1_000_000_000;

/// The units and their lengths in nanoseconds.
const UNITS: [(char, u128); 6] = [
    ('n', 1),
    ('u', 1_000),
    ('m', 1_000_000),
    ('S', SECOND),
    ('M', 60 * SECOND),
    ('H', 3_600 * SECOND),
];

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
/// Zero is valid. For example, gRPC for Go sends `0n` when a deadline has passed. Returns `None` if the value is
/// not valid.
///
/// # Examples
///
/// ```
/// use http::HeaderValue;
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::http::parse_grpc_timeout;
///
/// let value = HeaderValue::from_static("1500m");
/// assert_eq!(parse_grpc_timeout(&value), Some(Duration::from_millis(1_500)));
/// assert_eq!(parse_grpc_timeout("soon"), None);
/// ```
pub fn parse_grpc_timeout(value: impl AsRef<[u8]>) -> Option<Duration> {
    let (unit, digits) = value.as_ref().split_last()?;
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let amount = (digits.iter()).fold(0, |amount, digit| 10 * amount + u128::from(digit - b'0'));
    let (_, size) = (UNITS.into_iter()).find(|(name, _)| *name == char::from(*unit))?;
    let nanos = amount * size;
    Some(Duration::new(
        (nanos / SECOND) as u64,
        (nanos % SECOND) as u32,
    ))
}

/// Formats a duration as the value of the header `grpc-timeout`.
///
/// The value has the finest unit in which eight digits suffice: nanoseconds below 100 ms, microseconds below 100 s,
/// milliseconds below 27 hours. The value is rounded down by at most 1/100,000, because a server should not work for longer
/// than its client waits. Zero is `0n`. A value above 99,999,999 hours becomes `99999999H`.
///
/// [`parse_grpc_timeout`] is the inverse.
///
/// # Examples
///
/// ```
/// use tokio_wheel::Duration;
/// use tokio_wheel_util::http::format_grpc_timeout;
///
/// assert_eq!(format_grpc_timeout(Duration::from_millis(1_500)), "1500000u");
/// assert_eq!(format_grpc_timeout(Duration::from_secs(86_400)), "86400000m");
/// ```
pub fn format_grpc_timeout(limit: Duration) -> HeaderValue {
    let nanos = limit.as_nanos();
    let mut amounts = UNITS.into_iter().map(|(unit, size)| (nanos / size, unit));
    let amount = amounts.find(|(amount, _)| *amount <= LARGEST);
    let (amount, unit) = amount.unwrap_or((LARGEST, 'H'));
    HeaderValue::try_from(format!("{amount}{unit}")).expect("digits and a letter are valid")
}

/// Returns the content type of a gRPC request without a suffix like `+proto`. Returns `None` for other
/// requests.
pub(super) fn content_type_in(headers: &HeaderMap) -> Option<&'static str> {
    let given = headers.get(header::CONTENT_TYPE)?.as_bytes();
    let given = given.split(|byte| b"+; ".contains(byte)).next()?;
    let mut types = CONTENT_TYPES.into_iter();
    types.find(|known| given.eq_ignore_ascii_case(known.as_bytes()))
}

/// Returns the headers of the response to a gRPC request that was not answered in time. gRPC clients show the
/// message.
pub(super) fn deadline_exceeded(content_type: &'static str) -> [(HeaderName, HeaderValue); 3] {
    let name = HeaderName::from_static;
    [
        (header::CONTENT_TYPE, content_type),
        (name("grpc-status"), "4"), // `DEADLINE_EXCEEDED`
        (name("grpc-message"), "request was not answered in time"),
    ]
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
}

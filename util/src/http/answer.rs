//! The response to a request that was not answered in time.

use http::{HeaderValue, Response, StatusCode, header};

/// The code of `DEADLINE_EXCEEDED`, as the value of the header `grpc-status`.
const DEADLINE_EXCEEDED: HeaderValue = HeaderValue::from_static("4");

/// The value of the header `grpc-message`. gRPC clients show this message.
const MESSAGE: HeaderValue = HeaderValue::from_static("request was not answered in time");

/// The response to a request whose time is over.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// A status and an empty body.
    Status(StatusCode),
    /// The gRPC status in the headers. The field is the content type of the request, without a suffix.
    Grpc(&'static str),
}

impl Answer {
    /// Creates the response, with an empty body.
    pub(super) fn response<B: Default>(self) -> Response<B> {
        let mut response = Response::new(B::default());
        match self {
            Self::Status(status) => *response.status_mut() = status,
            Self::Grpc(content_type) => {
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
                headers.insert("grpc-status", DEADLINE_EXCEEDED);
                headers.insert("grpc-message", MESSAGE);
            }
        }
        response
    }
}

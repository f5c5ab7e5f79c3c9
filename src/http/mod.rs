//! Timeouts of HTTP requests and of their bodies, as [tower layers](tower_layer::Layer).

mod answer;
mod body;
mod deadline;
mod error;
mod grpc;
mod limits;
mod request_body;
mod response_body;
mod timeout;
mod waits;

pub use body::TimeoutBody;
pub use deadline::Deadline;
pub use error::LimitExceeded;
pub use grpc::{GrpcTimeoutError, parse_grpc_timeout};
pub use limits::BodyLimits;
pub use request_body::{RequestBodyTimeout, RequestBodyTimeoutLayer};
pub use response_body::{ResponseBodyFuture, ResponseBodyTimeout, ResponseBodyTimeoutLayer};
pub use timeout::{ResponseFuture, Timeout, TimeoutLayer};

/// The methods of a service that give access to its inner service.
macro_rules! inner_service {
    ($service:literal) => {
        /// Returns the inner service.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use tokio_wheel::{http::", $service, ", Duration};")]
        ///
        #[doc = concat!("let service = ", $service, "::new(\"any service\", Duration::from_secs(30));")]
        /// assert_eq!(*service.get_ref(), "any service");
        /// ```
        pub fn get_ref(&self) -> &S {
            &self.inner
        }

        /// Returns the inner service, mutably.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use tokio_wheel::{http::", $service, ", Duration};")]
        ///
        #[doc = concat!("let mut service = ", $service, "::new(\"any service\", Duration::from_secs(30));")]
        /// *service.get_mut() = "another";
        /// assert_eq!(service.into_inner(), "another");
        /// ```
        pub fn get_mut(&mut self) -> &mut S {
            &mut self.inner
        }

        /// Gives up the limits and returns the inner service.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use tokio_wheel::{http::", $service, ", Duration};")]
        ///
        #[doc = concat!("let service = ", $service, "::new(\"any service\", Duration::from_secs(30));")]
        /// assert_eq!(service.into_inner(), "any service");
        /// ```
        pub fn into_inner(self) -> S {
            self.inner
        }
    };
}
use inner_service;

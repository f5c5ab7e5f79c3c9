//! A timer of high resolution where the process may open no more files. In a process of its own,
//! which the limit applies to.

#![cfg(all(feature = "high-resolution", target_os = "linux"))]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio_wheel::{Timer, error::BuildError};

#[tokio::test]
async fn the_error_says_so() {
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..limit
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let error = Timer::builder().high_resolution().build().unwrap_err();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(
        matches!(error, BuildError::TimerFd { os_error: Some(24) }),
        "{error:?}"
    );
    assert!(error.to_string().contains("Too many open files"), "{error}");
    assert!(Timer::builder().high_resolution().build().is_ok());
}

//! A timer of high resolution in a process that may open no more files.

use std::{error::Error, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio_wheel::{Timer, error::BuildError};

use crate::support::current_thread;

#[test]
fn the_error_says_so() {
    let _alone = super::alone();
    let runtime = current_thread();
    let _entered = runtime.enter();
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..limit
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let error = Timer::builder().high_resolution().build().unwrap_err();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(matches!(error, BuildError::Alarm { .. }), "{error:?}");
    let source = error.source().expect("the system's error");
    assert!(source.to_string().contains("Too many open files"));
    let system = source.downcast_ref::<io::Error>().unwrap();
    assert_eq!(system.raw_os_error(), Some(24));
    assert!(Timer::builder().high_resolution().build().is_ok());
}

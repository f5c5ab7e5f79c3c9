//! Tests on real clocks: of timers with a high resolution, and that no sleep is early.

#[cfg(all(feature = "high-resolution", target_os = "linux"))]
mod high_resolution;
mod never_early;

#[cfg(all(feature = "high-resolution", not(target_os = "linux")))]
#[tokio::test]
async fn only_linux_has_a_high_resolution() {
    use std::io::ErrorKind;

    use tokio_wheel::{Timer, error::BuildError};

    let built = Timer::builder().high_resolution().build();
    let Err(BuildError::Alarm { source, .. }) = built else {
        panic!("{built:?}");
    };
    assert_eq!(source.kind(), ErrorKind::Unsupported);
}

//! What the fuzz targets run. Each input is a program, and a program that does not do what its oracle
//! says panics.

#[cfg(not(fuzzing))]
compile_error!("the wheel shows its insides to this crate with RUSTFLAGS=\"--cfg fuzzing\" only");

pub mod delay_queue_program;
pub mod wheel_program;

// The module is private to the crate: this is its source, compiled once more.
#[expect(
    dead_code,
    unused_imports,
    reason = "the programs do not use all that the crate does"
)]
#[path = "../../src/wheel/mod.rs"]
mod wheel;

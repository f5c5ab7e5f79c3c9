//! The programs that the fuzz targets run. Each input is a program. A program panics if the code
//! disagrees with the program's oracle.

#[cfg(not(fuzzing))]
compile_error!("the wheel shows its insides to this crate with RUSTFLAGS=\"--cfg fuzzing\" only");

pub mod delay_queue_program;
pub mod wheel_program;

// Compiles the wheel's source once more, because the module is private to the crate.
#[expect(
    dead_code,
    unused_imports,
    reason = "the programs use only a part of the module"
)]
#[path = "../../src/wheel/mod.rs"]
mod wheel;

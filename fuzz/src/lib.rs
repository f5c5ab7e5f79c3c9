//! The programs that the fuzz targets run. Each input is a program. A program panics if the code
//! disagrees with the program's oracle.

#[cfg(not(fuzzing))]
compile_error!("the wheel shows its insides to this crate with RUSTFLAGS=\"--cfg fuzzing\" only");

pub mod delay_queue_program;
pub mod wheel_program;

#![no_main]

use tokio_wheel_fuzz::wheel_program;

libfuzzer_sys::fuzz_target!(|program: wheel_program::Program| program.run());

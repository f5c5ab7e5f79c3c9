#![no_main]

use tokio_wheel_fuzz::delay_queue_program;

libfuzzer_sys::fuzz_target!(|program: delay_queue_program::Program| program.run());

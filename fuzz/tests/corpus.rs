//! Runs every input of the corpus, without a fuzzer.

use std::{fs, path::Path};

use arbitrary::{Arbitrary, Unstructured};

/// Hands each input of a target's corpus to its program, as the fuzzer does.
fn run<P: for<'a> Arbitrary<'a>>(target: &str, run: fn(P)) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut inputs = 0;
    for input in fs::read_dir(corpus).unwrap() {
        let path = input.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        println!("{}", path.display());
        run(P::arbitrary_take_rest(Unstructured::new(&bytes)).unwrap());
        inputs += 1;
    }
    assert!(inputs >= 12, "{inputs} inputs are no corpus");
}

#[test]
fn wheel() {
    run("wheel", tokio_wheel_fuzz::wheel_program::Program::run);
}

#[test]
fn delay_queue() {
    run(
        "delay_queue",
        tokio_wheel_fuzz::delay_queue_program::Program::run,
    );
}
